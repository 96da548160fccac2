// A sentence as one head of attention reads it.
import { UserError } from "#core/errors.js";
import { mulberry } from "#core/random.js";
import { embed, row } from "#math/equation.js";

const MOST = 12;

/** The words of a sentence; Chinese without spaces is read sign by sign. */
export function split(sentence) {
  const text = sentence.trim();
  const words = /\s/.test(text) || !/[\u3400-\u9fff]/.test(text) ? text.split(/\s+/) : [...text];
  if (words.length < 2) throw new UserError("few", { count: text ? words.length : 0 });
  if (words.length > MOST) throw new UserError("many", { count: words.length, most: MOST });
  return words;
}

/** An order of `count` places that is not the one they are in. */
export function shuffled(count, seed) {
  const order = Array.from({ length: count }, (_, i) => i);
  const random = mulberry(seed + 1);
  for (let i = count - 1; i > 0; i -= 1) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  const moved = order.some((from, to) => from !== to);
  return moved ? order : [...order.slice(1), order[0]];
}

/** A vector for the n-th spelling of a sentence: fixed numbers, the same in Python. */
export const vector = (n, d) =>
  Float64Array.from({ length: d }, (_, i) => Math.cos(1.7 * (n + 1) * (i + 1)));

/** One head of self-attention, with q = k = v = the tokens. */
export function attend(tokens, encoding, causal) {
  const inputs = encoding.vector ? tokens.map((token, at) => embed(encoding, token, at)) : tokens;
  const scale = inputs[0].length ** -0.5;
  return inputs.map((q, query) => {
    const scores = row(encoding, { q, keys: inputs, query, scale, causal, inputs });
    const top = Math.max(...scores);
    const shares = scores.map((score) => Math.exp(score - top));
    const total = shares.reduce((sum, share) => sum + share, 0);
    const out = new Float64Array(inputs[0].length);
    shares.forEach((share, key) => {
      const own = encoding.value?.(key - query);
      for (let i = 0; i < out.length; i += 1) {
        out[i] += (share / total) * (inputs[key][i] + (own ? own[i] : 0));
      }
    });
    return out;
  });
}
