// How fast the pairs of dimensions turn.

/** Radians per token of each pair: base ** (-2i / d), i = 0 .. d/2 - 1. */
export function inverseFrequencies(d, base) {
  return Float64Array.from({ length: Math.floor(d / 2) }, (_, i) => base ** ((-2 * i) / d));
}

/** Radians per token of hands that turn once in 2, 4, 8, ... tokens, as binary digits do. */
export function digitFrequencies(count) {
  return Float64Array.from({ length: count }, (_, i) => (2 * Math.PI) / 2 ** (i + 1));
}

/** Tokens per turn: 2 pi / w, Infinity for a pair that does not turn. */
export function wavelengths(inverse) {
  return Float64Array.from(inverse, (w) => (2 * Math.PI) / w);
}

/** The sum of cos(w distance) over all pairs: two sinusoidal positions, one against the other. */
export function cosineSum(inverse, distance) {
  let total = 0;
  for (let i = 0; i < inverse.length; i++) total += Math.cos(inverse[i] * distance);
  return total;
}
