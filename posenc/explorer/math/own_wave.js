// What a table with one row per position is good for, whatever its waves look like.

/** A wave through points at equal steps of a turn, straight in between. */
export function through(points) {
  const count = points.length;
  return (turns) => {
    const turn = turns - Math.floor(turns);
    // Just below a whole turn the difference rounds to 1.
    const at = (turn === 1 ? 0 : turn) * count;
    const below = Math.min(Math.floor(at), count - 1);
    const start = points[below];
    return start + (points[(below + 1) % count] - start) * (at - below);
  };
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

const norm = (a) => Math.sqrt(dot(a, a));
const subtract = (x, b, share) => x.map((value, i) => value - share * b[i]);

/** How many rows differ; numbers closer than a billionth count as the same. */
export function distinctRows(rows) {
  // Adding 0 turns -0 into 0.
  return new Set(rows.map((row) => Array.from(row, (x) => Math.round(x * 1e9) + 0).join())).size;
}

export function largest(rows) {
  let most = 0;
  for (const row of rows) for (const x of row) most = Math.max(most, Math.abs(x));
  return most;
}

/**
 * What is left of the rows `step` further on once the best 2 x 2 matrix has moved each pair of
 * columns, as a share of their size: of the worst pair.
 */
export function shiftResidual(rows, step) {
  let worst = 0;
  for (let j = 0; j + 1 < rows[0].length; j += 2) {
    const columns = (part) => [j, j + 1].map((c) => Float64Array.from(part, (row) => row[c]));
    const basis = orthonormal(columns(rows.slice(0, -step)));
    let [left, whole] = [0, 0];
    for (const column of columns(rows.slice(step))) {
      const rest = basis.reduce((x, b) => subtract(x, b, dot(x, b)), column);
      left += dot(rest, rest);
      whole += dot(column, column);
    }
    if (whole > 0) worst = Math.max(worst, Math.sqrt(left / whole));
  }
  return worst;
}

function orthonormal(columns) {
  const sizes = columns.map(norm);
  const basis = [];
  // The longer first, so that a column of zeros can be told from what rounding leaves.
  for (const c of sizes[0] >= sizes[1] ? [0, 1] : [1, 0]) {
    let x = columns[c];
    for (let again = 0; again < 2; again++) x = basis.reduce((y, b) => subtract(y, b, dot(y, b)), x);
    const size = norm(x);
    if (size > Math.max(...sizes) * x.length * Number.EPSILON) basis.push(x.map((value) => value / size));
  }
  return basis;
}

/** Inner products by distance: their mean, and how far apart those of one distance lie. */
export function innerProducts(rows) {
  const mean = [];
  let spread = 0;
  for (let n = 0; n < rows.length; n++) {
    let [sum, least, most] = [0, Infinity, -Infinity];
    for (let i = 0; i + n < rows.length; i++) {
      const product = dot(rows[i], rows[i + n]);
      sum += product;
      if (product < least) least = product;
      if (product > most) most = product;
    }
    mean.push(sum / (rows.length - n));
    spread = Math.max(spread, most - least);
  }
  return { mean, spread };
}

/** How far the products of the nearest 16 distances exceed those of the farther half, on average. */
export function fall(mean) {
  const average = (part) => part.reduce((sum, x) => sum + x, 0) / part.length;
  const near = average(mean.slice(1, 17));
  const far = average(mean.slice(Math.floor(mean.length / 2)));
  return mean[0] ? (near - far) / mean[0] : 0;
}

/** How many columns hold numbers that training never showed, by more than a hundredth of its range. */
export function columnsBeyond(trained, beyond) {
  let count = 0;
  for (let j = 0; j < trained[0].length; j++) {
    let [least, most] = [Infinity, -Infinity];
    for (const row of trained) {
      least = Math.min(least, row[j]);
      most = Math.max(most, row[j]);
    }
    const room = Math.max((most - least) / 100, 1e-9);
    if (beyond.some((row) => row[j] < least - room || row[j] > most + room)) count++;
  }
  return count;
}
