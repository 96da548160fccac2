// One row per position, or per distance: what an encoding says, content aside.
import { scoreCurves } from "#math/curves.js";
import { places, turn } from "#math/rotary.js";
import { turns } from "#math/turns.js";

const LONGEST = { position: 16_384, distance: 1024 };

/** Ones, as wide as the heads that an encoding reads. */
export function ones(encoding, d) {
  const { head_dim: headDim, dim } = encoding.settings;
  const reads = encoding.between || encoding.gather || encoding.counted;
  return new Float64Array(encoding.width ?? (reads ? (headDim ?? dim ?? d) : d)).fill(1);
}

/**
 * { kind, rows, columns, values } of an encoding, rows one after another.
 *
 * kind "position": the vector of each position, or, of a rotary encoding, a key of ones turned
 * there. kind "distance": row n has the score of each head between equal tokens of ones n apart,
 * the query the last one, times d ** -0.5; -Infinity where it does not see the key.
 */
export function vectors(encoding, length, d) {
  const kind = encoding.vector || (encoding.angles && !encoding.size) ? "position" : "distance";
  const rows = Math.min(length, encoding.reach ?? Infinity, LONGEST[kind]);
  if (kind === "distance") return byDistance(encoding, rows, d);
  if (encoding.inverse && encoding.layout) return byTurns(encoding, rows);
  const rowOf = encoding.vector ?? turnedOnes(encoding, d);
  const columns = rowOf(0).length;
  const values = new Float64Array(rows * columns);
  for (let p = 0; p < rows; p++) values.set(rowOf(p), p * columns);
  return { kind, rows, columns, values };
}

// Of pairs that turn by position times frequency: sine and cosine, or ones that are turned.
function byTurns({ inverse, layout, columns: given, gain = 1, vector }, rows) {
  const r = inverse.length;
  const columns = given ?? 2 * r;
  const { step, gap } = places(r, layout);
  const { cos, sin } = turns(rows, inverse);
  const values = new Float64Array(rows * columns);
  for (let p = 0, at = 0; p < rows; p++) {
    for (let i = 0, one = p * columns; i < r; i++, at++, one += step) {
      values[one] = vector ? sin[at] : gain * (cos[at] - sin[at]);
      // Of an odd number of columns the last sine has no cosine.
      if (i * step + gap >= columns) continue;
      values[one + gap] = vector ? cos[at] : gain * (sin[at] + cos[at]);
    }
  }
  return { kind: "position", rows, columns, values };
}

// The heads side by side, where each turns in its own way.
function turnedOnes(encoding, d) {
  const key = ones(encoding, d).fill(encoding.gain);
  const heads = Array.from({ length: encoding.turningHeads ?? 1 }, (_, head) => head);
  const turned = 2 * encoding.angles(0, 0).length;
  const of = (position, head) => turn(key, encoding.angles(position, head), encoding.layout);
  return (position) =>
    Float64Array.from(heads.flatMap((head) => Array.from(of(position, head).slice(0, turned))));
}

function byDistance(encoding, rows, d) {
  const columns = encoding.heads ?? 1;
  const token = ones(encoding, d);
  const distances = Array.from({ length: rows }, (_, n) => n);
  const values = new Float64Array(rows * columns);
  const at = { query: rows - 1, distances, scale: token.length ** -0.5 };
  for (let head = 0; head < columns; head++) {
    const [curve] = scoreCurves(encoding, [{ q: token, k: token }], { ...at, head });
    curve.forEach((score, n) => (values[n * columns + head] = score));
  }
  return { kind: "distance", rows, columns, values };
}
