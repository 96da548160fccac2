// Encodings that add a bias to the score, by name: bias(distance, head, query), distance k - q.
import * as alibi from "#math/alibi.js";
import * as fire from "#math/fire.js";
import { inverseFrequencies } from "#math/frequencies.js";
import * as kerple from "#math/kerple.js";
import * as sandwich from "#math/sandwich.js";
import { bucket } from "#math/t5.js";
import { growth } from "#math/temperature.js";

export const biases = {
  none: () => ({}),

  alibi: ({ heads, slopes = "press", future = null, learned = false, inside = false }, deal) => {
    let past = typeof slopes === "string" ? alibi.slopes(heads, slopes) : slopes;
    let ahead = past.map((slope) => slope * (future ?? 1));
    if (learned) {
      const trained = deal(future === null ? 1 : 2, heads).map(Math.exp);
      past = trained.slice(0, heads);
      ahead = trained.slice(-heads);
    }
    const bias = (distance, head) => alibi.bias(distance, past[head], ahead[head]);
    return { heads, slopes: past, ...(inside ? { inside: bias } : { bias }) };
  },

  t5: ({ heads, buckets = 32, max_distance = 128, bidirectional = false }, deal) => {
    const weight = deal(buckets, heads);
    const bucketOf = (distance) =>
      bucket(distance, { buckets, maxDistance: max_distance, bidirectional });
    const bias = (distance, head) => weight[bucketOf(distance) * heads + head];
    return { heads, buckets, bucketOf, bias };
  },

  kerple: ({ heads, kind = "log" }, deal) => {
    const r1 = deal(heads).map(Math.exp);
    const r2 = deal(heads).map((raw) => kerple.positive(raw, kind));
    return { heads, bias: (distance, h) => -kerple.kernel(distance, r1[h], r2[h], kind) };
  },

  fire: ({ heads, width = 32, initial_c = 0.1, initial_threshold = 512, eps = 1e-6 }, deal) => {
    const [hiddenWeight, hiddenBias] = [deal(width, 1), deal(width)];
    const [outputWeight, outputBias] = [deal(heads, width), deal(heads)];
    // The parameter c is a float32 from the start.
    const read = { c: Math.fround(initial_c), threshold: initial_threshold, eps };
    const weights = { hiddenWeight, hiddenBias, outputWeight, outputBias };
    const bias = (distance, head, query) =>
      fire.network(fire.share(distance, query, read), head, weights);
    return { heads, bias };
  },

  sandwich: ({ heads, dim = 128, base = 10_000, centered = true }) => {
    const inverse = inverseFrequencies(dim, base);
    const bias = (distance, head) => sandwich.bias(distance, head, inverse, heads, centered);
    return { heads, bias };
  },

  temperature: ({ kind, ...settings }) => ({ factor: (query) => growth(query, kind, settings) }),
};
