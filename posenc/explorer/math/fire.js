// Li et al. 2024, arXiv:2310.04418: a small network of the distance as a share of the position.

/** The share that the network reads: psi(|distance|) / (psi(max(threshold, query)) + eps). */
export function share(distance, query, { c, threshold, eps = 1e-6 }) {
  const psi = (n) => Math.log1p(Math.abs(c * n));
  return psi(Math.abs(distance)) / (psi(Math.max(query, threshold)) + eps);
}

/** The network, 1 -> width, ReLU, width -> heads, for one head. */
export function network(x, head, { hiddenWeight, hiddenBias, outputWeight, outputBias }) {
  const width = hiddenBias.length;
  let total = outputBias[head];
  for (let unit = 0; unit < width; unit++) {
    const hidden = Math.max(hiddenWeight[unit] * x + hiddenBias[unit], 0);
    total += outputWeight[head * width + unit] * hidden;
  }
  return total;
}
