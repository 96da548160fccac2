import { inverseFrequencies } from "#math/frequencies.js";

/** Logarithms of the frequencies before training, in float32 as the parameter holds them. */
export function initial(d, base) {
  return inverseFrequencies(d, base).map((w) => Math.fround(Math.log(w)));
}

/** Radians per token from their trained logarithms. */
export function frequencies(logFrequency) {
  return Float64Array.from(logFrequency, Math.exp);
}
