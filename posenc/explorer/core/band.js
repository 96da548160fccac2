// The least width of a column, of which a band shows the lowest and the highest place.
const COLUMN = 4;
// A curve that goes up and down by more than this share of the picture's area leaves no gaps to follow it by.
const FULL = 1 / 6;

/**
 * The outline of a curve that swings too often to be followed: its highest places from left to
 * right, then its lowest from right to left, as [x, y] in pixels; null where the curve can be drawn.
 *
 * `x` and `y` place values in pixels, `frame` has the width and height of the picture.
 */
export function band(xs, ys, x, y, { width, height }) {
  const places = Float64Array.from(ys, (value) => (value === null ? Number.NaN : y(value)));
  let travel = 0;
  let swings = 0;
  let before = 0;
  for (let i = 1; i < places.length; i += 1) {
    const step = places[i] - places[i - 1];
    // Holes, and the logarithm of 0, have no place.
    if (!Number.isFinite(step)) continue;
    travel += Math.abs(step);
    if (step * before < 0) swings += 0.5;
    before = step || before;
  }
  if (travel < FULL * width * height) return null;
  // A column holds a whole swing, so that both edges are the curve's own.
  const wide = Math.max(COLUMN, width / swings);
  const columns = [];
  for (let i = 0; i < places.length; i += 1) {
    const place = places[i];
    if (!Number.isFinite(place)) continue;
    const at = x(xs[i]);
    const last = columns.at(-1);
    if (!last || at - last.at >= wide) columns.push({ at, low: place, high: place });
    else {
      if (place > last.low) last.low = place;
      if (place < last.high) last.high = place;
    }
  }
  // What is left at the end is no whole swing: the column before reaches over it.
  const end = columns.length > 1 ? columns.pop() : columns[0];
  columns.push({ ...columns.at(-1), at: Math.max(end.at, x(xs[xs.length - 1])) });
  const top = columns.map(({ at, high }) => [at, high]);
  const bottom = columns.map(({ at, low }) => [at, low]);
  return [...top, ...bottom.reverse()];
}

/** Writes `outline` into a path or a context. */
export function trace(path, outline) {
  outline.forEach(([x, y], i) => (i ? path.lineTo(x, y) : path.moveTo(x, y)));
  path.closePath();
}
