/**
 * Whether query q sees key k; both count tokens from 0.
 *
 * causal: no future, but for the first `prefix` tokens. window: only keys closer than `window`,
 * oneself included, but for the first `sinks` tokens. chunk: only keys of the same chunk.
 */
export function visible(rule, q, k) {
  const { causal = false, prefix = 0, window = null, sinks = 0, chunk = null } = rule;
  if (causal && k > q && k >= prefix) return false;
  if (chunk !== null && Math.floor(q / chunk) !== Math.floor(k / chunk)) return false;
  return window === null || Math.abs(q - k) < window || k < sinks;
}
