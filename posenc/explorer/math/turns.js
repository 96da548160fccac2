// Sines and cosines of many positions at once.

const RUN = 64;

/**
 * cos and sin of p * inverse[i] for the positions p of 0 .. rows - 1, row after row.
 *
 * By the sum of two angles, a multiple of 64 tokens and the rest, so that a sine is computed for one
 * position in 32 and not for each; the difference is of the size of rounding.
 */
export function turns(rows, inverse) {
  const r = inverse.length;
  const [cos, sin] = [new Float64Array(rows * r), new Float64Array(rows * r)];
  const near = waves(Math.min(RUN, rows), 1, inverse);
  const far = waves(Math.ceil(rows / RUN), RUN, inverse);
  for (let p = 0, at = 0; p < rows; p++) {
    const run = ((p / RUN) | 0) * r;
    const rest = (p % RUN) * r;
    for (let i = 0; i < r; i++, at++) {
      const [c, s] = [far.cos[run + i], far.sin[run + i]];
      cos[at] = c * near.cos[rest + i] - s * near.sin[rest + i];
      sin[at] = s * near.cos[rest + i] + c * near.sin[rest + i];
    }
  }
  return { cos, sin };
}

function waves(count, step, inverse) {
  const r = inverse.length;
  const [cos, sin] = [new Float64Array(count * r), new Float64Array(count * r)];
  for (let n = 0, at = 0; n < count; n++) {
    for (let i = 0; i < r; i++, at++) {
      cos[at] = Math.cos(n * step * inverse[i]);
      sin[at] = Math.sin(n * step * inverse[i]);
    }
  }
  return { cos, sin };
}
