// Heo et al. 2024, arXiv:2403.13298: RoPE in two or three dimensions.
import { inverseFrequencies } from "#math/frequencies.js";

/** Where token `index` stands on a grid of these sizes; rows go on below it. */
export function coordinates(index, grid) {
  return grid.map((size, axis) => {
    const step = Math.floor(index / grid.slice(axis + 1).reduce((product, n) => product * n, 1));
    return axis === 0 ? step : step % size;
  });
}

/** Radians per step of each pair: every axis turns its own share of the pairs. */
export function frequencies(d, axes, base) {
  const inverse = inverseFrequencies(d / axes, base);
  return Float64Array.from({ length: d / 2 }, (_, i) => inverse[i % inverse.length]);
}

/** The angle of each pair at one place. */
export function angles(place, frequencies) {
  const share = frequencies.length / place.length;
  return frequencies.map((w, i) => place[Math.floor(i / share)] * w);
}
