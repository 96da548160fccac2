/** size numbers from -1 to 1 without a pattern, the same in Python: 2 (43758.5453 sin(12.9898 n) mod 1) - 1. */
export function noise(size, start = 0) {
  return Float64Array.from({ length: size }, (_, i) => {
    const turns = 43758.5453 * Math.sin(12.9898 * (start + i + 1));
    return 2 * (turns - Math.floor(turns)) - 1;
  });
}
