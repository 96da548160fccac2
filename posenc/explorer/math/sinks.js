/** The distance that counts from query m to key n where a cache holds `count` sinks and a window. */
export function counted(m, n, count, window) {
  return m - n < window ? m - n : Math.min(m, count + window - 1) - n;
}
