// Tables of one trained row per position: n rows of d numbers, one after another.

/** Row `position` of the table. */
export function row(table, d, position) {
  return table.slice(position * d, (position + 1) * d);
}
