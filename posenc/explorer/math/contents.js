// Encodings whose part of the score reads the content, by name: gather(q, k, distance, head) joins
// q . k inside the scale.
import { counts, read } from "#math/cope.js";
import * as deberta from "#math/deberta.js";
import { dot } from "#math/dot.js";
import { logGate } from "#math/forget_gate.js";
import { inverseFrequencies } from "#math/frequencies.js";
import { memo } from "#math/memo.js";
import * as shaw from "#math/shaw.js";
import * as transformerXL from "#math/transformer_xl.js";

const EPSILON = 1e-7;

// LayerNorm of each row of d numbers.
function normalised(table, d, scale, shift) {
  const values = Float64Array.from(table);
  for (let at = 0; at < values.length; at += d) {
    const row = values.subarray(at, at + d);
    const mean = row.reduce((sum, x) => sum + x, 0) / d;
    const variance = row.reduce((sum, x) => sum + (x - mean) ** 2, 0) / d;
    row.forEach((x, i) => {
      row[i] = ((x - mean) / Math.sqrt(variance + EPSILON)) * scale[i] + shift[i];
    });
  }
  return values;
}

export const contents = {
  shaw: ({ dim, clip = 16, values = true, table = "learned", future = null }, deal) => {
    const rows = clip + (future ?? clip) + 1;
    const learned = table === "learned";
    const keys = learned ? deal(rows, dim) : shaw.fixedTable(rows, dim, clip, table);
    const own = learned && values ? deal(rows, dim) : keys;
    const row = (table, distance) => {
      const at = shaw.row(distance, clip, future ?? clip) * dim;
      return table.subarray(at, at + dim);
    };
    const gather = (q, _, distance) => dot(q, row(keys, distance));
    return { gather, value: values ? (distance) => row(own, distance) : null };
  },

  transformer_xl: ({ dim, heads, head_dim = null, clamp = null, base = 10_000 }, deal) => {
    const width = head_dim ?? dim / heads;
    const projection = deal(dim, heads, width);
    const [u, v] = [deal(heads, width), deal(heads, width)];
    const of = (vectors, head) => vectors.subarray(head * width, (head + 1) * width);
    const inverse = inverseFrequencies(dim, base);
    const waves = memo((distance) => transformerXL.relative(distance, inverse, clamp));
    const projected = (q, head) => transformerXL.projected(q, projection, head, heads);
    const queries = memo((head) => memo((q) => projected(q, head)));
    const positionBias = memo((head) => projected(of(v, head), head));
    // The three parts beside q . k, in the order of the paper's equation.
    const parts = (q, k, distance, head) => ({
      position: dot(waves(distance), queries(head)(q)),
      contentBias: dot(of(u, head), k),
      positionBias: dot(waves(distance), positionBias(head)),
    });
    const gather = (q, k, distance, head) => {
      const { position, contentBias, positionBias } = parts(q, k, distance, head);
      return position + contentBias + positionBias;
    };
    return { heads, parts, gather };
  },

  deberta: (settings, deal, _, layer) => {
    const { dim, heads, span = 512, buckets = null, head_dim = null } = settings;
    const { terms = ["c2p", "p2c"], projections = "layer", norm = false } = settings;
    const [size, width] = [buckets ?? span, head_dim ?? dim / heads];
    const own = projections === "own";
    let table = deal(2 * size, dim);
    if (norm) table = normalised(table, dim, deal(dim), deal(dim));
    // Row n of the table, projected by weights (heads * width, dim) or by the layer.
    const rows = (weight, shift, project) =>
      memo((head) => {
        const linear = (row) =>
          Float64Array.from({ length: width }, (_, i) => {
            const at = head * width + i;
            return dot(row, weight.subarray(at * dim, (at + 1) * dim)) + (shift?.[at] ?? 0);
          });
        const map = own ? linear : project(head);
        return memo((n) => map(table.subarray(n * dim, (n + 1) * dim)));
      });
    const none = () => () => new Float64Array(width);
    let [keys, queries] = [none, none];
    if (terms.includes("c2p")) keys = rows(own && deal(heads * width, dim), null, layer?.projectK);
    if (terms.includes("p2c")) {
      const [weight, shift] = own ? [deal(heads * width, dim), deal(heads * width)] : [];
      queries = rows(weight, shift, layer?.projectQ);
    }
    const rowOf = (distance) => deberta.row(distance, { span, buckets });
    const parts = (q, k, distance, head) => ({
      c2p: dot(q, keys(head)(rowOf(distance))),
      p2c: dot(k, queries(head)(rowOf(distance))),
    });
    const gather = (q, k, distance, head) => {
      const { c2p, p2c } = parts(q, k, distance, head);
      return c2p + p2c;
    };
    return { heads, rowOf, parts, gather, factor: () => (1 + terms.length) ** -0.5 };
  },

  cope: ({ dim, max_position = 64, heads = null }, deal) => {
    const weight = deal(heads ?? 1, max_position, dim);
    const of = (head) => {
      const at = heads === null ? 0 : head * max_position * dim;
      return weight.subarray(at, at + max_position * dim);
    };
    // Of all keys of a query at once, from their scaled scores: -Infinity for those not visible.
    const counted = (q, scores, head) =>
      counts(scores, max_position).map((count) => read(q, of(head), count));
    return { heads, counted, causalOnly: true };
  },

  forget_gate: ({ dim, heads }, deal) => {
    const [weight, bias] = [deal(heads, dim), deal(heads)];
    const logGateOf = (x, head) =>
      logGate(x, weight.subarray(head * dim, (head + 1) * dim), bias[head]);
    return { heads, logGate: logGateOf, causalOnly: true };
  },
};
