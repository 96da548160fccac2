// The models of the lab's comparison: what their encodings are, and what of them training showed.
import data from "#data/compare.js";
import { make, python as constructed } from "#math/catalogue.js";
import { scoreCurves } from "#math/curves.js";
import { inverseFrequencies } from "#math/frequencies.js";
import { vectors } from "#math/vectors.js";

const { dim, heads } = data.model;
const longest = data.lengths.at(-1);

export const HEADS = heads;
/** Dimensions of a head. */
export const WIDTH = dim / heads;

// As the lab makes them.
const SETTINGS = {
  none: {},
  learned: { dim, max_length: longest },
  sinusoidal: { dim, base: 10_000 },
  rotary: { dim: WIDTH, base: 10_000 },
  alibi: { heads },
  t5: { heads, buckets: 32, max_distance: data.trainLength },
};
export const NAMES = Object.keys(SETTINGS);

export const frequencies = () => inverseFrequencies(WIDTH, SETTINGS.rotary.base);
export const inPython = (name) => constructed(name, {}, SETTINGS[name]);
const isAbsolute = (name) => name === "learned" || name === "sinusoidal";

/**
 * The attention of the last of `length` tokens that are all alike, of ones: `weights` of the keys, and
 * `fresh`, whether training never showed what the encoding says of a key to this query.
 */
export function rowOf(name, length, head) {
  const encoding = make(name, {}, SETTINGS[name]);
  const weights = softmax((isAbsolute(name) ? absolute : relative)(encoding, length, head));
  const shown = shownIn(name, encoding);
  return { weights, fresh: Array.from(weights, (_, n) => !shown(n, length - 1)) };
}

function absolute(encoding, length) {
  const { values } = vectors(encoding, length, dim);
  const last = (length - 1) * dim;
  const scores = new Float64Array(length);
  for (let n = 0; n < length; n++) {
    let total = 0;
    for (let i = 0; i < dim; i++) total += (1 + values[last + i]) * (1 + values[n * dim + i]);
    scores[n] = total * dim ** -0.5;
  }
  return scores;
}

function relative(encoding, length, head) {
  const ones = new Float64Array(WIDTH).fill(1);
  const back = Array.from({ length }, (_, n) => length - 1 - n);
  const at = { query: length - 1, distances: back, head, scale: WIDTH ** -0.5 };
  return Float64Array.from(scoreCurves(encoding, [{ q: ones, k: ones }], at)[0]);
}

/** Whether training showed key n to query m: their positions, or what stands for their distance. */
function shownIn(name, encoding) {
  const { trainLength } = data;
  if (name === "none") return () => true;
  if (isAbsolute(name)) return (n, m) => Math.max(n, m) < trainLength;
  if (!encoding.bucketOf) return (n, m) => m - n < trainLength;
  const buckets = new Set(Array.from({ length: trainLength }, (_, n) => encoding.bucketOf(-n)));
  return (n, m) => buckets.has(encoding.bucketOf(n - m));
}

function softmax(scores) {
  const top = scores.reduce((most, score) => Math.max(most, score), -Infinity);
  const powers = scores.map((score) => Math.exp(score - top));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

/** The mean loss at a length: measured, or where none was, on the line between the two beside it. */
export function lossAt(name, length) {
  const { lengths, encodings } = data;
  const at = (n) => encodings[name].loss[n].mean;
  const after = lengths.findIndex((each) => each >= length);
  if (lengths[after] === length) return { value: at(length), measured: true };
  const [low, high] = [lengths[after - 1], lengths[after]];
  const share = Math.log(length / low) / Math.log(high / low);
  return { value: at(low) + share * (at(high) - at(low)), measured: false };
}
