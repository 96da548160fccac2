/** The d lowest binary digits of a whole position, the lowest first. */
export function digits(position, d) {
  const found = new Float64Array(d);
  for (let [i, rest] = [0, position]; rest > 0 && i < d; i++) {
    found[i] = rest % 2;
    rest = Math.floor(rest / 2);
  }
  return found;
}
