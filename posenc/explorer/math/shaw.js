// Shaw et al. 2018, arXiv:1803.02155; NEZHA, arXiv:1909.00204.
import { inverseFrequencies } from "#math/frequencies.js";
import { vector } from "#math/sinusoidal.js";

/** Which row of the tables distance k - q reads: row 0 is -clip and all before. */
export function row(distance, clip, future = clip) {
  return Math.max(-clip, Math.min(future, distance)) + clip;
}

/** The fixed table of NEZHA: row n is the sinusoid of distance n - clip, or of n ("nezha"). */
export function fixedTable(rows, d, clip, kind = "sinusoidal") {
  const inverse = inverseFrequencies(d, 10_000);
  const first = kind === "sinusoidal" ? -clip : 0;
  const values = new Float64Array(rows * d);
  for (let n = 0; n < rows; n++) values.set(vector(first + n, inverse, d), n * d);
  return values;
}
