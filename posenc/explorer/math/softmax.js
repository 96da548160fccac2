/** Scores as shares of 1: e to the power of each, by the sum of all. */
export function softmax(scores) {
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}
