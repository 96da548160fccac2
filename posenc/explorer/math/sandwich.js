// Chi et al. 2022, arXiv:2212.10356.
import { cosineSum } from "#math/frequencies.js";

/** (sum of cos(w distance) - d/2) / (8 (head + 1) / heads), w = `inverse`. */
export function bias(distance, head, inverse, heads, centered = true) {
  const product = cosineSum(inverse, distance) - (centered ? inverse.length : 0);
  return product / (((head + 1) * 8) / heads);
}
