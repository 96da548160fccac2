// What each method makes of the turning pairs of a head, in a text longer than those of training.
import { UserError } from "#core/errors.js";
import { wavelengths } from "#math/frequencies.js";
import { reach } from "#math/reach.js";
import { checkRamp, readConfig } from "#math/rope_config.js";
import { frequencies } from "#math/scaling.js";

export const METHODS = ["none", "linear", "ntk", "dynamic_ntk", "yarn", "llama3", "longrope", "rerope"];
const TURN = 2 * Math.PI;

/** The settings of a method as the sliders stand. */
function settingsOf(name, s) {
  const shared = { d: s.d, base: s.base, trained: s.trained, factor: s.factor };
  if (name === "yarn") return { ...shared, betaFast: s.beta_fast, betaSlow: s.beta_slow };
  if (name === "llama3") return { ...shared, lowFreqFactor: s.low, highFreqFactor: s.high };
  if (name !== "longrope") return shared;
  // LongRoPE's divisors are searched per model; these are an example that grows from 1 to the factor.
  const pairs = s.d / 2;
  const grown = (i) => Math.min(1, 1.5 * (i / Math.max(pairs - 1, 1)) ** 2);
  const long = Array.from({ length: pairs }, (_, i) => s.factor ** grown(i));
  return { ...shared, short: long.map(() => 1), long };
}

const possible = (name, d) => d >= 4 || !["ntk", "dynamic_ntk"].includes(name);

/** What a scaling does at the target length. */
function measured(label, name, settings, target) {
  const { d, base, trained } = settings;
  const plain = frequencies("none", { d, base }).inverse;
  // ReRoPE changes no angle: distances beyond those of training count as the farthest of training.
  const clipped = name === "rerope";
  const { inverse, gain } = frequencies(clipped ? "none" : name, { ...settings, length: target });
  const pairs = reach(plain, inverse, trained, clipped ? trained : target);
  return {
    label, name, gain, trained, target, settings, pairs,
    wavelengths: Array.from(wavelengths(inverse)),
    turnsInTraining: pairs.map(({ seen }) => seen / TURN),
    turnsAtTarget: pairs.map(({ reached }) => reached / TURN),
    once: pairs.filter(({ seen }) => seen < TURN).length,
    fresh: pairs.filter(({ fresh }) => fresh).length,
  };
}

export function compute(s) {
  if (s.method === "config") {
    const ropes = readConfig(s.config, { d: s.d, trained: s.trained, factor: s.factor });
    const found = ropes.map(({ layer, type, name, settings, target, headDim }) => ({
      ...measured(layer ? `${layer}: ${type}` : type, name, settings, target),
      type, layer, headDim,
    }));
    const [{ settings, target }] = ropes;
    return { rows: [measured("none", "none", settings, target), ...found], chosen: 1, config: true };
  }
  if (!possible(s.method, s.d)) throw new UserError("one_pair");
  const target = Math.round(s.trained * s.factor);
  const usable = (name) => {
    if (name === "yarn" && name !== s.method) return rampRuns(settingsOf(name, s));
    return possible(name, s.d);
  };
  if (s.method === "yarn") checkRamp(settingsOf("yarn", s));
  // ReRoPE's pairs turn as without scaling: beside that it would be no line of its own.
  const beside = (name) => s.overlay && name !== "rerope" && usable(name);
  const names = METHODS.filter((name) => name === "none" || name === s.method || beside(name));
  const rows = names.map((name) => measured(name, name, settingsOf(name, s), target));
  return { rows, chosen: names.indexOf(s.method), config: false };
}

function rampRuns(settings) {
  try {
    checkRamp(settings);
    return true;
  } catch (error) {
    if (error instanceof UserError) return false;
    throw error;
  }
}
