// What the parts of an encoding mean: the score of every key for one query, as in posenc.scores.
import { dot } from "#math/dot.js";
import { visible } from "#math/masks.js";
import { turnedDot } from "#math/rotary.js";

const dotted = (encoding, q, k, m, n, head) => {
  if (!encoding.between) return dot(q, k);
  const square = encoding.gain ** 2;
  const size = encoding.size?.(m, n) ?? null;
  const angles = encoding.between(m, n, head);
  const factor = size === null && square !== 1 ? angles.map(() => square) : size;
  return turnedDot(q, k, angles, encoding.layout, factor, encoding.start);
};

/** What is in the scale: q . k of query m and key n, turned, with what reads the content. */
export function content(encoding, q, k, m, n, head = 0) {
  let total = dotted(encoding, q, k, m, n, head);
  if (encoding.gather) total += encoding.gather(q, k, n - m, head);
  if (encoding.inside) total += encoding.inside(n - m, head);
  return total;
}

/**
 * Scores of one query at position `query` for keys at 0, 1, 2, ..., -Infinity where not visible.
 *
 * inputs are the tokens that a gate reads, one vector per key; without them each is zero.
 */
export function row(encoding, { q, keys, query, head = 0, scale = 1, causal = false, inputs }) {
  const factor = scale * (encoding.factor?.(query) ?? 1);
  const rule = { causal, ...encoding.rule };
  const inner = Float64Array.from(keys, (k, n) =>
    visible(rule, query, n) ? factor * content(encoding, q, k, query, n, head) : -Infinity,
  );
  const scores = Float64Array.from(inner);
  if (encoding.counted) encoding.counted(q, inner, head).forEach((x, n) => (scores[n] += x));
  if (encoding.bias) scores.forEach((_, n) => (scores[n] += encoding.bias(n - query, head, query)));
  if (encoding.logGate) {
    let forgotten = 0;
    for (let n = query - 1; n >= 0; n--) {
      forgotten += encoding.logGate(inputs?.[n + 1] ?? [], head);
      scores[n] += forgotten;
    }
  }
  return scores;
}

const MERGES = {
  add: (x, p) => x + p,
  multiply: (x, p) => x * (1 + p),
  hadamard: (x, p) => x * p,
};

/** x with the position in it, for an absolute encoding: added, multiplied or beside. */
export function embed(encoding, x, position) {
  const p = encoding.vector(position);
  const merge = encoding.settings.merge ?? "add";
  if (merge === "concat") return Float64Array.of(...x, ...p);
  const at = (i) => p[p.length === 1 ? 0 : i];
  return Float64Array.from(x, (value, i) => MERGES[merge](value, at(i)));
}
