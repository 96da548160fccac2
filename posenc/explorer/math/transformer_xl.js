// Dai et al. 2019, arXiv:1901.02860, section 3.3.
import { vector } from "#math/sinusoidal.js";

/** The sinusoid R of distance k - q: sines of i - j, then cosines. */
export function relative(distance, inverse, clamp = null) {
  const back = clamp === null ? -distance : Math.max(-clamp, Math.min(clamp, -distance));
  return vector(back, inverse, 2 * inverse.length, "half");
}

/** W q of one head, so that (R W) . q = R . (W q); projection W is (d, heads, headDim). */
export function projected(q, projection, head, heads) {
  const d = projection.length / (heads * q.length);
  return Float64Array.from({ length: d }, (_, c) => {
    const at = (c * heads + head) * q.length;
    let total = 0;
    for (let i = 0; i < q.length; i++) total += projection[at + i] * q[i];
    return total;
  });
}
