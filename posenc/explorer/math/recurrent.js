/** Rows p[k + 1] = tanh(weight p[k] + bias) from p[0] = start, one after another. */
export function table(length, { start, weight, bias }) {
  const d = start.length;
  const rows = new Float64Array(length * d);
  rows.set(start.slice(0, length * d));
  for (let p = d; p < length * d; p += d) {
    for (let i = 0; i < d; i++) {
      let sum = bias[i];
      for (let j = 0; j < d; j++) sum += weight[i * d + j] * rows[p - d + j];
      rows[p + i] = Math.tanh(sum);
    }
  }
  return rows;
}
