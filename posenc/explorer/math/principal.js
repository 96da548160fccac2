/**
 * The directions along which rows differ most: { directions, shares }, the largest share of the
 * variance first. Each direction points so that its largest number is positive.
 */
export function principal(rows, count) {
  const width = rows[0].length;
  const mean = Float64Array.from({ length: width }, (_, j) => rows.reduce((sum, row) => sum + row[j], 0) / rows.length);
  const spread = Array.from({ length: width }, () => new Float64Array(width));
  for (const row of rows) {
    for (let i = 0; i < width; i++) {
      const x = row[i] - mean[i];
      for (let j = i; j < width; j++) spread[i][j] += x * (row[j] - mean[j]);
    }
  }
  for (let i = 0; i < width; i++) for (let j = 0; j < i; j++) spread[i][j] = spread[j][i];
  const { values, vectors } = eigen(spread);
  const all = values.reduce((sum, value) => sum + value, 0) || 1;
  const order = Array.from(values.keys()).sort((a, b) => values[b] - values[a]).slice(0, count);
  return {
    mean,
    shares: order.map((at) => values[at] / all),
    directions: order.map((at) => upright(Float64Array.from(vectors, (row) => row[at]))),
  };
}

/** Where rows lie along each direction. */
export function along(rows, { mean, directions }) {
  return directions.map((direction) =>
    rows.map((row) => row.reduce((sum, x, j) => sum + (x - mean[j]) * direction[j], 0)),
  );
}

function upright(direction) {
  const largest = direction.reduce((best, x) => (Math.abs(x) > Math.abs(best) ? x : best), 0);
  return largest < 0 ? direction.map((x) => -x) : direction;
}

// Jacobi: turn pairs of axes until nothing is left beside the diagonal.
function eigen(matrix) {
  const n = matrix.length;
  const a = matrix.map((row) => Float64Array.from(row));
  const v = Array.from({ length: n }, (_, i) => Float64Array.from({ length: n }, (_, j) => (i === j ? 1 : 0)));
  for (let sweep = 0; sweep < 50; sweep++) {
    let [beside, on] = [0, 0];
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) i === j ? (on += a[i][j] ** 2) : (beside += a[i][j] ** 2);
    if (beside <= 1e-26 * on) break;
    for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) turn(a, v, p, q);
  }
  return { values: a.map((row, i) => row[i]), vectors: v };
}

function turn(a, v, p, q) {
  if (a[p][q] === 0) return;
  const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
  const tan = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.sqrt(theta * theta + 1));
  const cos = 1 / Math.sqrt(tan * tan + 1);
  const sin = tan * cos;
  for (let k = 0; k < a.length; k++) {
    const [x, y] = [a[k][p], a[k][q]];
    a[k][p] = cos * x - sin * y;
    a[k][q] = sin * x + cos * y;
  }
  for (let k = 0; k < a.length; k++) {
    const [x, y] = [a[p][k], a[q][k]];
    a[p][k] = cos * x - sin * y;
    a[q][k] = sin * x + cos * y;
    const [r, s] = [v[k][p], v[k][q]];
    v[k][p] = cos * r - sin * s;
    v[k][q] = sin * r + cos * s;
  }
}
