// Wang et al. 2024, arXiv:2409.12191: RoPE whose pairs are shared out among axes.

/** Which axis each pair reads. */
export function axisOfPair(sections, interleaved = false) {
  const [first, ...later] = sections;
  if (interleaved === "space") {
    // Height and width take turns, and time has what is beyond.
    const space = later.length * (later[0] ?? 0);
    return [...Array(space + first).keys()].map((i) => (i < space ? 1 + (i % later.length) : 0));
  }
  if (!interleaved) return sections.flatMap((count, axis) => Array(count).fill(axis));
  const owner = Array(sections.reduce((sum, n) => sum + n, 0)).fill(0);
  for (let axis = 1; axis < sections.length; axis++) {
    for (let n = 0; n < sections[axis]; n++) owner[axis + n * sections.length] = axis;
  }
  return owner;
}

/** The angle of each pair at one place (time, row, column); in text all are the same. */
export function angles(place, inverse, owner) {
  return inverse.map((w, i) => place[owner[i]] * w);
}
