// Golovneva et al. 2024, arXiv:2405.18719: queries count the keys that they pick out.
import { dot } from "#math/dot.js";

/** From the scores of visible keys, the count of each key: sum of sigmoids from it to the query. */
export function counts(scores, maxPosition) {
  const found = new Float64Array(scores.length);
  let total = 0;
  for (let j = scores.length - 1; j >= 0; j--) {
    total += 1 / (1 + Math.exp(-scores[j]));
    found[j] = Math.min(total, maxPosition - 1);
  }
  return found;
}

/** q . e at a count, interpolated between rows of e (maxPosition, d). */
export function read(q, table, count) {
  const at = (row) => dot(q, table.subarray(row * q.length, (row + 1) * q.length));
  const below = Math.floor(count);
  return at(below) + (count - below) * (at(Math.ceil(count)) - at(below));
}
