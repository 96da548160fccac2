/** Scores as shares of 1: e to the power of each, by the sum of all. */
export function softmax(scores) {
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

/** Over how many keys these shares are spread: e to the power of their entropy. */
export function effective(shares) {
  return Math.exp(shares.reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0));
}
