/** The plain position, as the one number of a vector. */
export function vector(position) {
  return Float64Array.of(position);
}
