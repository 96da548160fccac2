// Scores against distance, many distances at once.
import { dot } from "#math/dot.js";
import { content } from "#math/equation.js";
import { visible } from "#math/masks.js";
import { memo } from "#math/memo.js";
import { pairParts, restDot } from "#math/rotary.js";

/**
 * The scores of query q at position `query` with a key k each of `distances` back, one list for
 * each of `draws` [{ q, k }]. All keys are alike, and so are the tokens that gates read: zero.
 */
export function scoreCurves(encoding, draws, { query, distances, head = 0, scale = 1 }) {
  const factor = scale * (encoding.factor?.(query) ?? 1);
  const rule = { causal: true, ...encoding.rule };
  const counted = draws.map((draw) => counter(encoding, draw, distances, head, factor));
  const contents = draws.map((draw) => contentOf(encoding, draw, head));
  const forgotten = encoding.logGate?.([], head) ?? 0;
  const curves = draws.map(() => []);
  for (const back of distances) {
    const seen = visible(rule, query, query - back);
    const added = (encoding.bias?.(-back, head, query) ?? 0) + back * forgotten;
    const turns = turned(encoding, query, back, head);
    draws.forEach((_, i) => {
      const score = factor * contents[i](query, back, turns) + added + counted[i](back);
      curves[i].push(seen ? score : -Infinity);
    });
  }
  return curves;
}

/**
 * The products of positions, one list for each of `words` [{ q, k }], which are added first where
 * there are any: the query stands `distances` ahead of the key, whose place goes along the input
 * from one list to the next.
 */
export function positionCurves(encoding, words, { reach, distances, scale = 1 }) {
  const at = memo(encoding.vector);
  const placed = (position, word) =>
    word ? at(position).map((value, n) => value + word[n]) : at(position);
  const steps = Math.max(words.length - 1, 1);
  return words.map(({ q, k }, i) =>
    distances.map((back) => {
      if (back >= reach) return NaN;
      const key = Math.floor(((reach - 1 - back) * i) / steps);
      return scale * dot(placed(key + back, q), placed(key, k));
    }),
  );
}

// cos and sin of a distance serve all draws.
function turned(encoding, query, back, head) {
  if (!encoding.between) return null;
  const angles = encoding.between(query, query - back, head);
  const size = encoding.size?.(query, query - back);
  const square = encoding.gain ** 2;
  const [cos, sin] = [new Float64Array(angles.length), new Float64Array(angles.length)];
  for (let i = 0; i < angles.length; i++) {
    const factor = square * (size?.[i] ?? 1);
    cos[i] = factor * Math.cos(angles[i]);
    sin[i] = factor * Math.sin(angles[i]);
  }
  return { cos, sin };
}

function contentOf(encoding, { q, k }, head) {
  if (!encoding.between) {
    const alike = !encoding.gather && !encoding.inside;
    const only = alike ? dot(q, k) : null;
    return (query, back) => only ?? content(encoding, q, k, query, query - back, head);
  }
  const r = encoding.between(0, 0, head).length;
  const { cosine, sine } = pairParts(q, k, r, encoding.layout, encoding.start);
  const passing = restDot(q, k, r, encoding.start);
  return (_query, _back, { cos, sin }) => {
    let total = passing;
    for (let i = 0; i < r; i++) total += cosine[i] * cos[i] + sine[i] * sin[i];
    return total;
  };
}

// What CoPE adds at a distance: with all keys alike the count is a multiple of their number.
function counter(encoding, { q, k }, distances, head, factor) {
  if (!encoding.counted) return () => 0;
  const farthest = Math.max(...distances);
  const score = factor * content(encoding, q, k, 0, 0, head);
  const added = encoding.counted(q, new Float64Array(farthest + 1).fill(score), head);
  return (back) => added[farthest - back];
}
