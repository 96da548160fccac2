// Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
import { places } from "#math/rotary.js";

/** Radians per token of each sine; denominator "tensor2tensor" is that of its code. */
export function frequencies(d, base, denominator = "paper") {
  const paper = denominator === "paper";
  const sines = paper ? Math.ceil(d / 2) : Math.floor(d / 2);
  const last = paper ? d / 2 : Math.max(sines - 1, 1);
  return Float64Array.from({ length: sines }, (_, i) => base ** (-i / last));
}

/** The vector of one position: sines and cosines side by side, or all sines first ("half"). */
export function vector(position, inverse, d, layout = "interleaved") {
  const row = new Float64Array(d);
  const { step, gap } = places(inverse.length, layout);
  for (let i = 0; i < inverse.length; i++) {
    const angle = position * inverse[i];
    row[i * step] = Math.sin(angle);
    // Of an odd d the last sine has no cosine.
    if (i * step + gap < d) row[i * step + gap] = Math.cos(angle);
  }
  return row;
}
