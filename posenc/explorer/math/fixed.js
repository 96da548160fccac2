// Numbers that stand for trained ones: the same in every browser and in Python.

/** size numbers sin(n ** 2), n = start + 1 .. start + size, times amplitude: spread like noise. */
export function fixed(size, start = 0, amplitude = 0.5) {
  return Float64Array.from({ length: size }, (_, i) => amplitude * Math.sin((start + i + 1) ** 2));
}

/** Deals out fixed numbers one tensor after another, as a module lists its parameters. */
export function dealer(start = 0) {
  let dealt = start;
  return (...shape) => {
    const size = shape.reduce((product, n) => product * n, 1);
    dealt += size;
    return fixed(size, dealt - size);
  };
}
