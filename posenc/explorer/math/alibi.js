// Press et al. 2022, arXiv:2108.12409.

/** The slope of each head, in score per token. kind "geometric" is the paper's sentence. */
export function slopes(heads, kind = "press") {
  let below = heads;
  if (kind === "press") for (below = 1; 2 * below <= heads; ) below *= 2;
  return Float64Array.from({ length: heads }, (_, h) =>
    h < below ? 2 ** ((-8 * (h + 1)) / below) : 2 ** ((-4 * (2 * (h - below) + 1)) / below),
  );
}

/** -slope * |distance|; `future` is the slope of keys ahead of the query. */
export function bias(distance, slope, future = slope) {
  return distance <= 0 ? slope * distance : -future * distance;
}
