// Liu et al. 2020, arXiv:2003.09229: positions on the path of a trained differential equation.

const activations = { tanh: Math.tanh, relu: (x) => Math.max(x, 0) };

// weight (d, d + 1) reads the vector and, in its last column, the time.
function linear(weight, bias, p, t) {
  const d = bias.length;
  return bias.map((start, i) => {
    let sum = start + weight[i * (d + 1) + d] * t;
    for (let j = 0; j < d; j++) sum += weight[i * (d + 1) + j] * p[j];
    return sum;
  });
}

/** h(t, p) = outer(activation(inner(p, t)), t). */
export function slope(t, p, weights, activation = "tanh") {
  const hidden = linear(weights.innerWeight, weights.innerBias, p, t).map(activations[activation]);
  return linear(weights.outerWeight, weights.outerBias, hidden, t);
}

/** The path at 0, delta, 2 delta, ...: Kutta's 3/8 rule, `steps` steps per token. */
export function table(length, weights, { delta = 0.1, steps = 1, activation = "tanh" } = {}) {
  const d = weights.start.length;
  const rows = new Float64Array(length * d);
  const h = delta / steps;
  const field = (t, p) => slope(t, p, weights, activation);
  let p = Float64Array.from(weights.start);
  rows.set(p.slice(0, length * d));
  for (let i = 0; i < (length - 1) * steps; i++) {
    const t = i * h;
    const k1 = field(t, p);
    const k2 = field(t + h / 3, p.map((x, j) => x + (h * k1[j]) / 3));
    const k3 = field(t + (h * 2) / 3, p.map((x, j) => x + h * (k2[j] - k1[j] / 3)));
    const k4 = field(t + h, p.map((x, j) => x + h * (k1[j] - k2[j] + k3[j])));
    p = p.map((x, j) => x + (h * (k1[j] + 3 * (k2[j] + k3[j]) + k4[j])) / 8);
    if ((i + 1) % steps === 0) rows.set(p, ((i + 1) / steps) * d);
  }
  return rows;
}
