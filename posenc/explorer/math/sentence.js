// A sentence as one head of attention reads it.
import { UserError } from "#core/errors.js";
import { embed, row } from "#math/equation.js";
import { softmax } from "#math/softmax.js";

const MOST = 12;

/** The words of a sentence; Chinese without spaces is read sign by sign. */
export function split(sentence) {
  const words = wordsOf(sentence);
  if (words.length < 2) throw new UserError("few", { count: words.length });
  if (words.length > MOST) throw new UserError("many", { count: words.length, most: MOST });
  return words;
}

function wordsOf(sentence) {
  const text = sentence.trim();
  if (/\s/.test(text) || !/[\u3400-\u9fff]/.test(text)) return text ? text.split(/\s+/) : [];
  return [...text];
}

/** How many orders the words of a sentence have; of one that `split` refuses, those of its bounds. */
export const orders = (sentence) =>
  factorial(Math.min(Math.max(wordsOf(sentence).length, 2), MOST));

/** The order of `count` places by its number: 0 is the reverse, the last the one they are in. */
export function ordered(count, number) {
  const left = Array.from({ length: count }, (_, i) => count - 1 - i);
  return Array.from({ length: count }, () => {
    const each = factorial(left.length - 1);
    const [next] = left.splice(Math.floor(number / each), 1);
    number %= each;
    return next;
  });
}

/** The number by which `ordered` gives this order. */
export function numberOf(order) {
  return order.reduce((sum, next, at) => {
    const above = order.slice(at + 1).filter((later) => later > next).length;
    return sum + above * factorial(order.length - 1 - at);
  }, 0);
}

const factorial = (n) => (n < 2 ? 1 : n * factorial(n - 1));

/** A vector for the n-th spelling of a sentence: fixed numbers, the same in Python. */
export const vector = (n, d) =>
  Float64Array.from({ length: d }, (_, i) => Math.cos(1.7 * (n + 1) * (i + 1)));

/** One head of self-attention, with q = k = v = the tokens. */
export function attend(tokens, encoding, causal) {
  const inputs = encoding.vector ? tokens.map((token, at) => embed(encoding, token, at)) : tokens;
  const scale = inputs[0].length ** -0.5;
  return inputs.map((q, query) => {
    const shares = softmax(row(encoding, { q, keys: inputs, query, scale, causal, inputs }));
    const out = new Float64Array(inputs[0].length);
    shares.forEach((share, key) => {
      const own = encoding.value?.(key - query);
      for (let i = 0; i < out.length; i += 1) {
        out[i] += share * (inputs[key][i] + (own ? own[i] : 0));
      }
    });
    return out;
  });
}
