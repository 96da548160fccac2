/** `(row, column) => value` of a heatmap's values: a flat list, a list of rows, or a function. */
export function cellReader({ values, cols }) {
  if (typeof values === "function") return values;
  if (typeof values[0] === "object") return (row, column) => values[row][column] ?? Number.NaN;
  return (row, column) => values[row * cols + column] ?? Number.NaN;
}

/**
 * Colour the cells into `canvas`, one pixel to a cell, or to a `wide` x `high` grid where there are
 * more cells: then a pixel is their mean, so that fast waves turn grey instead of showing waves that
 * are not there. Returns the range of values that the colours span.
 */
export function raster(canvas, spec, wide, high, pixels) {
  const classes = spec.palette === "categorical";
  const width = Math.min(spec.cols, Math.max(wide, 1));
  const height = Math.min(spec.rows, Math.max(high, 1));
  const sampled = classes || typeof spec.values === "function";
  const flat = sampled ? centres(spec, width, height) : means(spec, width, height);
  const range = spec.range ?? rangeOf(flat, spec.palette);
  const image = new ImageData(width, height);
  const words = new Uint32Array(image.data.buffer);
  const [low, high_] = range;
  const factor = classes ? 1 : 255.999 / (high_ - low || 1);
  const last = pixels.length - 1;
  for (let i = 0; i < flat.length; i += 1) {
    const value = flat[i];
    if (Number.isNaN(value)) continue;
    const index = classes ? value % pixels.length : ((value - low) * factor) | 0;
    words[i] = pixels[index < 0 ? 0 : index > last ? last : index];
  }
  // Setting a canvas's size is slow, even where nothing changes.
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  canvas.getContext("2d").putImageData(image, 0, 0);
  return range;
}

function centres(spec, width, height) {
  const read = cellReader(spec);
  const found = new Float64Array(width * height);
  for (let y = 0, i = 0; y < height; y += 1) {
    const row = Math.floor(((y + 0.5) * spec.rows) / height);
    for (let x = 0; x < width; x += 1, i += 1) {
      found[i] = read(row, Math.floor(((x + 0.5) * spec.cols) / width));
    }
  }
  return found;
}

function means(spec, width, height) {
  const { rows, cols } = spec;
  const values =
    typeof spec.values[0] === "object"
      ? spec.values.flatMap((row) => Array.from(row))
      : spec.values;
  if (width === cols && height === rows) return values;
  const sums = new Float64Array(width * height);
  const counts = new Uint32Array(width * height);
  const column = Uint32Array.from({ length: cols }, (_, x) => Math.floor((x * width) / cols));
  for (let y = 0, i = 0; y < rows; y += 1) {
    const start = Math.floor((y * height) / rows) * width;
    for (let x = 0; x < cols; x += 1, i += 1) {
      const value = values[i];
      // A cell that shows nothing (NaN) does not take part in a mean.
      if (value === value) {
        sums[start + column[x]] += value;
        counts[start + column[x]] += 1;
      }
    }
  }
  for (let i = 0; i < sums.length; i += 1) sums[i] = counts[i] ? sums[i] / counts[i] : Number.NaN;
  return sums;
}

function rangeOf(flat, palette) {
  let low = Infinity;
  let high = -Infinity;
  for (let i = 0; i < flat.length; i += 1) {
    const value = flat[i];
    if (value < low && value > -Infinity) low = value;
    if (value > high && value < Infinity) high = value;
  }
  if (low > high) return [0, 1];
  if (palette === "diverging") {
    const size = Math.max(Math.abs(low), Math.abs(high)) || 1;
    return [-size, size];
  }
  return low === high ? [low, low + 1] : [low, high];
}
