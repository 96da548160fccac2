// Encodings whose score is a sum of parts, with the settings that the bias panel makes them of.
import { dot } from "#math/dot.js";
import * as shaw from "#math/shaw.js";

// Width of the heads here: enough to show the parts, few enough to make them at each change.
export const WIDTH = 16;
export const PARTS = ["token_token", "token_position", "position_token", "position_position"];

export const KINDS = {
  alibi: { parts: [0, 3], settings: (s) => ({ heads: s.heads }) },
  t5: {
    parts: [0, 3],
    settings: ({ heads, buckets, max_distance, bidirectional }) => ({ heads, buckets, max_distance, bidirectional }),
    rows: (encoding) => encoding.bucketOf,
  },
  kerple: { parts: [0, 3], settings: (s) => ({ heads: s.heads, kind: s.kernel }) },
  sandwich: { parts: [0, 3], uses: ["base"], settings: (s) => ({ heads: s.heads, dim: 128, base: s.base }) },
  fire: {
    parts: [0, 3],
    uses: ["trained"],
    settings: (s) => ({ heads: s.heads, initial_threshold: Math.max(1, Math.floor(s.trained / 2)) }),
  },
  shaw: {
    parts: [0, 1],
    settings: (s) => ({ dim: WIDTH, clip: s.clip, values: false }),
    rows: (_, s) => (distance) => shaw.row(distance, s.clip),
  },
  transformer_xl: {
    parts: [0, 1, 2, 3],
    uses: ["base"],
    settings: (s) => ({ dim: WIDTH, heads: s.heads, head_dim: WIDTH, base: s.base }),
  },
  deberta: {
    parts: [0, 1, 2],
    settings: (s) => ({
      dim: WIDTH, heads: s.heads, span: s.span, buckets: s.log_buckets ? s.buckets : null,
      head_dim: WIDTH, projections: "own",
    }),
    rows: (encoding) => encoding.rowOf,
  },
};

/** What each part of one score is; the four names are those of posenc.decompose. */
export function partsOf(encoding, q, k, query, key, head) {
  const distance = key - query;
  const scale = WIDTH ** -0.5 * (encoding.factor?.(query) ?? 1);
  const content = scale * dot(q, k);
  if (encoding.bias) return [content, 0, 0, encoding.bias(distance, head, query)];
  if (!encoding.parts) return [content, scale * encoding.gather(q, k, distance, head), 0, 0];
  const { position = 0, contentBias = 0, positionBias = 0, c2p = 0, p2c = 0 } = encoding.parts(q, k, distance, head);
  return [content, scale * (position + c2p), scale * (contentBias + p2c), scale * positionBias];
}
