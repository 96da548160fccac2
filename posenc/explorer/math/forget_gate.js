// Lin et al. 2025, arXiv:2503.02130: each token says how much later queries forget.

/** log sigmoid(weight . x + bias), the logarithm of a token's gate. */
export function logGate(x, weight, bias) {
  let logit = bias;
  for (let i = 0; i < x.length; i++) logit += weight[i] * x[i];
  return logit < 0 ? logit - Math.log1p(Math.exp(logit)) : -Math.log1p(Math.exp(-logit));
}
