// Scalings of rotary frequencies. trained is the original length, length that of the input.
import { inverseFrequencies } from "#math/frequencies.js";

const stretched = (d, base, growth) => inverseFrequencies(d, base * growth ** (d / (d - 2)));

// A pair keeps `share` of its own frequency, the rest is interpolated.
const blended = (inverse, share, factor) =>
  inverse.map((w, i) => share(w, i) * w + ((1 - share(w, i)) * w) / factor);

const clamp = (x) => Math.min(Math.max(x, 0), 1);

// From 0 to 1 in how often a pair turns within the trained length; of no width it is a step.
const byTurns = (trained, low, high) => (w) =>
  clamp(((trained * w) / (2 * Math.PI) - low) / (high - low || 1e-12));

/** Between which pairs the ramp of YaRN's code runs. */
export function rampEnds({ d, base, trained, betaFast = 32, betaSlow = 1, truncate = true }) {
  let [first, last] = [betaFast, betaSlow].map(
    (turns) => (d * Math.log(trained / (turns * 2 * Math.PI))) / (2 * Math.log(base)),
  );
  if (truncate) [first, last] = [Math.floor(first), Math.ceil(last)];
  return [Math.max(first, 0), Math.min(last, d - 1)];
}

/** The gain of YaRN on cos and sin. */
function yarnGain({ factor, attentionFactor, mscale, mscaleAllDim }) {
  if (attentionFactor != null) return attentionFactor;
  const log = 0.1 * Math.log(factor);
  if (mscale != null && mscaleAllDim != null) return (mscale * log + 1) / (mscaleAllDim * log + 1);
  return log + 1;
}

const rules = {
  none: (inverse) => ({ inverse, gain: 1 }),

  // Position interpolation: Chen et al. 2023, arXiv:2306.15595, equation 4.
  linear: (inverse, { factor }) => ({ inverse: inverse.map((w) => w / factor), gain: 1 }),

  // bloc97 2023, as in arXiv:2309.00071, definition 1.
  ntk: (_, { d, base, factor }) => ({ inverse: stretched(d, base, factor), gain: 1 }),

  // Without a length the input is no longer than the trained length.
  dynamic_ntk: (inverse, { d, base, trained, factor, length = null }) => {
    if (length === null) return { inverse, gain: 1 };
    const growth = (factor * Math.max(length, trained)) / trained - (factor - 1);
    return { inverse: stretched(d, base, growth), gain: 1 };
  },

  // Peng et al. 2023, arXiv:2309.00071, definitions 2 and 3; ramp "code" is the authors' code.
  yarn: (inverse, settings) => {
    const { trained, factor, betaFast = 32, betaSlow = 1, ramp = "code" } = settings;
    let share = byTurns(trained, betaSlow, betaFast);
    if (ramp === "code") {
      const [first, last] = rampEnds(settings);
      share = (_, i) => 1 - clamp((i - first) / (last - first || 0.001));
    }
    return { inverse: blended(inverse, share, factor), gain: yarnGain(settings) };
  },

  // Ding et al. 2024, arXiv:2402.13753; one divisor per pair.
  longrope: (inverse, { trained, factor, length = null, short, long, attentionFactor }) => {
    const divisors = length !== null && length > trained ? long : short;
    const gain = attentionFactor ?? Math.sqrt(1 + Math.log(factor) / Math.log(trained));
    return { inverse: inverse.map((w, i) => w / divisors[i]), gain };
  },

  // Meta's code for Llama 3.1.
  llama3: (inverse, { trained, factor, lowFreqFactor = 1, highFreqFactor = 4 }) => {
    const share = byTurns(trained, lowFreqFactor, highFreqFactor);
    return { inverse: blended(inverse, share, factor), gain: 1 };
  },

  // Barbero et al. 2025, arXiv:2410.06205: only the fastest pairs turn.
  proportional: (inverse, { d, fraction = 0.5 }) => ({
    inverse: inverse.map((w, i) => (i < Math.floor((fraction * d) / 2) ? w : 0)),
    gain: 1,
  }),
};

export const scalings = Object.keys(rules);

/** { inverse, gain } of a scaling: radians per token of each pair, and what cos and sin are times. */
export function frequencies(name, settings) {
  return rules[name](inverseFrequencies(settings.d, settings.base), settings);
}
