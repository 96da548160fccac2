/** The distance that counts from query m to key n: grouped beyond the window. */
export function counted(m, n, window, group) {
  if (m - n < window) return m - n;
  const floor = Math.floor;
  return floor(m / group) + window - floor(window / group) - floor(n / group);
}
