// Sun et al. 2022, arXiv:2212.10554: RoPE whose pairs also fade with distance.

/** Logarithm per token of each pair's factor, log(zeta) / scaleBase: the fast pairs fade first. */
export function rates(d, scaleBase = 512, gamma = 0.4) {
  return Float64Array.from({ length: d / 2 }, (_, i) => {
    const zeta = ((2 * i) / d + gamma) / (1 + gamma);
    return Math.log(zeta) / scaleBase;
  });
}

/** What each pair is times at `back` tokens. */
export function fading(back, rates) {
  return rates.map((rate) => Math.exp(rate * back));
}
