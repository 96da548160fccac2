// What a model's config.json says of its rotary encoding, as transformers 4 and 5 write it: flat or by
// layer type, under rope_parameters or rope_scaling, of a text model or inside a multimodal one.
import { UserError } from "#core/errors.js";
import { watch } from "#core/watch.js";
import { BASES, SILENT, ofType, turnsNothing, turnsOtherwise } from "#math/model_types.js";
import { rampEnds } from "#math/scaling.js";

// Names that mean what `scaling.js` calls otherwise; mrope only says which axis a pair reads.
const NAMES = {
  default: "none", linear: "linear", dynamic: "dynamic_ntk", ntk: "ntk", yarn: "yarn", longrope: "longrope",
  su: "longrope", llama3: "llama3", proportional: "proportional", mrope: "none",
};
const SHARES = ["partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_emb_fraction"];
const NAMES_OF = { partial_rotary_factor: SHARES, rope_parameters: ["rope_parameters", "rope_scaling"] };
const KNOWN = "default, linear, dynamic, yarn, longrope, llama3, proportional";
const WIDEST = 4096;
const LONGEST = 2 ** 31;
// A string, or what Python writes for a number without bound, as for Mamba's time_step_limit; JSON has none.
const INFINITY = /("(?:[^"\\]|\\.)*")|\bInfinity\b/g;

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function written(value) {
  try {
    return typeof value === "number" ? String(value) : (JSON.stringify(value) ?? String(value));
  } catch {
    // Lists within lists may be deeper than the stack of who writes them out.
    return "…";
  }
}

const shown = (value) => {
  const text = typeof value === "string" ? `"${value}"` : written(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
};

/** The first of `keys` that the objects have, in this order, as [key, value]; null counts as absent. */
function find(objects, keys) {
  for (const object of objects) {
    for (const key of keys) {
      if (Object.hasOwn(object, key) && object[key] !== null) return [key, object[key]];
    }
  }
  return [keys[0], undefined];
}

function number(objects, keys, { otherwise, least = 0, most = Infinity, whole = false } = {}) {
  const [key, value] = find(objects, [keys].flat());
  if (value === undefined) {
    if (otherwise !== undefined) return otherwise;
    throw new UserError("config_missing", { key });
  }
  if (typeof value !== "number" || !Number.isFinite(value) || (whole && !Number.isInteger(value))) {
    throw new UserError(whole ? "config_whole" : "config_number", { key, given: shown(value) });
  }
  if (value < least || value > most || (least === 0 && value === 0)) {
    throw new UserError("config_range", { key, given: value, least, most });
  }
  return value;
}

function list(rope, key, count) {
  const value = rope[key];
  if (value === undefined || value === null) throw new UserError("config_missing", { key });
  if (!Array.isArray(value)) throw new UserError("config_list", { key, given: shown(value), count });
  if (value.length !== count) throw new UserError("config_count", { key, given: value.length, count });
  const wrong = value.find((each) => typeof each !== "number" || !Number.isFinite(each) || each <= 0);
  if (wrong !== undefined) throw new UserError("config_number", { key, given: shown(wrong) });
  return value;
}

/**
 * The rotary encodings of a config.json: { layer, type, name, headDim, settings, target } each, where
 * name and settings are those of `scaling.frequencies`, layer is "" where all layers are alike, and
 * target is the length that the model is meant for. page stands in for what is missing.
 */
export function readConfig(text, page) {
  const whole = parsed(text);
  const inner = ["text_config", "language_config", "llm_config"].map((key) => whole[key]).find(isObject);
  const said = inner ? { ...whole, ...inner } : whole;
  const { model_type: type } = said;
  if (turnsNothing(said)) throw new UserError("config_unturned", { type });
  if (turnsOtherwise(said)) throw new UserError("config_otherwise", { type });
  const config = completed(said, ofType(SILENT, type) ?? {});
  // A scaling alone, without a model around it, will do.
  const bare = typeof (config.rope_type ?? config.type) === "string";
  const [key, given] = find([config], ["rope_parameters", "rope_scaling"]);
  if (given !== undefined && !isObject(given)) throw new UserError("config_rope", { key, given: shown(given) });
  const rope = given ?? (bare ? config : {});
  return byLayer(rope, config).map(([layer, each]) => read(layer, each, config, page));
}

/** The config with what its code takes of keys that it does not have, under no name; null is said, but of a rotation. */
function completed(said, silent) {
  const says = (name, value) => Object.hasOwn(said, name) && !(isObject(value) && said[name] === null);
  const absent = ([key, value]) => value !== undefined && !(NAMES_OF[key] ?? [key]).some((name) => says(name, value));
  return { ...said, ...Object.fromEntries(Object.entries(silent).filter(absent)) };
}

/** Which of page's settings stand in for what a config.json leaves out. */
export function standIns(text, page) {
  const { watched, seen } = watch(page);
  try {
    readConfig(text, watched);
  } catch (error) {
    // Of what cannot be used there is nothing to stand in for.
    if (error instanceof UserError) return [];
    throw error;
  }
  return [...seen];
}

function parsed(text) {
  if (!text.trim()) throw new UserError("config_empty");
  let whole;
  try {
    whole = JSON.parse(text.replace(INFINITY, (_, quoted) => quoted ?? "1e999"));
  } catch (error) {
    throw new UserError("config_not_json", { reason: String(error.message).slice(0, 80) });
  }
  if (!isObject(whole)) throw new UserError("config_not_object", { given: shown(whole) });
  return whole;
}

function byLayer(rope, config) {
  const layers = Object.entries(rope).filter(([, value]) => isObject(value));
  if (layers.length && !("rope_type" in rope) && !("type" in rope)) {
    if (layers.length > 8) throw new UserError("config_layers", { given: layers.length });
    return layers.map(([layer, each]) => [layer.slice(0, 40), each]);
  }
  // Before transformers 5, and of any type where the file has Gemma 3's own key.
  const local = typeof config.rope_local_base_freq === "number" ? BASES.gemma3 : null;
  const bases = ofType(BASES, config.model_type) ?? local;
  if (bases === null) return [["", rope]];
  const [full, sliding] = bases.map((key) => ({ rope_theta: config[key] }));
  return [
    ["full_attention", { ...full, ...rope }],
    ["sliding_attention", { rope_type: "default", ...sliding }],
  ];
}

function read(layer, rope, config, page) {
  const [, type = "default"] = find([rope], ["rope_type", "type"]);
  const name = typeof type === "string" && Object.hasOwn(NAMES, type) ? NAMES[type] : undefined;
  if (name === undefined) {
    throw new UserError("config_type", { type: shown(type), known: KNOWN });
  }
  const headDim = widthOf(layer, config, page);
  const d = name === "proportional" ? headDim : turnedOf(rope, config, headDim);
  const base = number([rope, config], ["rope_theta", "rotary_emb_base", "rope_base"], { otherwise: 10_000, most: 1e15 });
  if (base <= 1) throw new UserError("config_range", { key: "rope_theta", given: base, least: 1, most: 1e15 });
  const most = number([config], ["max_position_embeddings", "n_positions", "seq_length"], {
    otherwise: null, least: 1, most: LONGEST, whole: true,
  });
  const trained = trainedOf(name, rope, config, most, page);
  const settings = { d, base, trained, ...RULES[name]({ rope, d, base, trained, most, page }) };
  const reached = most !== null && most > trained ? most : Math.round(trained * (settings.factor ?? page.factor));
  return { layer, type, name, headDim, settings, target: Math.max(reached, trained) };
}

function widthOf(layer, config, page) {
  // Gemma 4's full layers have wider heads.
  const named = layer === "full_attention" ? ["global_head_dim", "head_dim"] : ["head_dim"];
  const [, own] = find([config], ["qk_rope_head_dim", ...named, "hidden_size", "n_embd", "d_model"]);
  if (own === undefined) return page.d;
  const size = { least: 1, most: WIDEST, whole: true };
  const [key, value] = find([config], ["qk_rope_head_dim", ...named]);
  let width = value === undefined ? null : number([config], key, size);
  if (width === null) {
    const hidden = number([config], ["hidden_size", "n_embd", "d_model"], { least: 1, most: 2 ** 24, whole: true });
    const heads = number([config], ["num_attention_heads", "n_head", "n_heads"], { least: 1, most: 2 ** 16, whole: true });
    if (hidden % heads || hidden / heads > WIDEST) throw new UserError("config_heads", { hidden, heads });
    width = hidden / heads;
  }
  if (width % 2) throw new UserError("config_odd", { given: width });
  return width;
}

function turnedOf(rope, config, headDim) {
  // Of latent attention the whole part that qk_rope_head_dim counts turns.
  const [, part] = find([config], ["qk_rope_head_dim"]);
  const share = part === undefined ? number([rope, config], SHARES, { otherwise: 1, most: 1 }) : 1;
  const d = number([config], "rotary_dim", { otherwise: Math.trunc(headDim * share), least: 2, most: headDim, whole: true });
  if (d < 2 || d % 2) throw new UserError("config_odd", { given: d });
  return d;
}

function trainedOf(name, rope, config, most, page) {
  const key = "original_max_position_embeddings";
  const length = { least: 2, most: LONGEST, whole: true };
  if (!["yarn", "longrope", "llama3"].includes(name)) return most ?? number([rope], key, { otherwise: null, ...length }) ?? page.trained;
  // Phi-3 has it beside the scaling, where it wins.
  return number([config, rope], key, { otherwise: null, ...length }) ?? most ?? page.trained;
}

const factorOf = (rope, otherwise) => number([rope], "factor", { otherwise, least: 1, most: 1e6 });

const RULES = {
  none: () => ({}),
  linear: ({ rope }) => ({ factor: factorOf(rope) }),
  ntk: ({ rope, d }) => ({ factor: factorOf(rope), ...atLeastTwo(d) }),
  dynamic_ntk: ({ rope, d }) => ({ factor: factorOf(rope), ...atLeastTwo(d) }),

  yarn: ({ rope, d, base, trained, most }) => {
    const factor = factorOf(rope, rope.factor === null && most ? Math.max(1, most / trained) : undefined);
    const optional = (key) => number([rope], key, { otherwise: null });
    // One of the two alone is ignored, as transformers does.
    const both = optional("mscale") !== null && optional("mscale_all_dim") !== null;
    const settings = {
      factor, betaFast: number([rope], "beta_fast", { otherwise: 32 }),
      betaSlow: number([rope], "beta_slow", { otherwise: 1 }), truncate: rope.truncate !== false,
      attentionFactor: optional("attention_factor"),
      mscale: both ? rope.mscale : null, mscaleAllDim: both ? rope.mscale_all_dim : null,
    };
    checkRamp({ d, base, trained, ...settings });
    return settings;
  },

  longrope: ({ rope, d, trained, most }) => ({
    factor: factorOf(rope, Math.max(1, (most ?? trained) / trained)),
    short: list(rope, "short_factor", d / 2),
    long: list(rope, "long_factor", d / 2),
    attentionFactor: number([rope], "attention_factor", { otherwise: null }),
  }),

  llama3: ({ rope }) => {
    const lowFreqFactor = number([rope], "low_freq_factor", {});
    const highFreqFactor = number([rope], "high_freq_factor", { least: lowFreqFactor });
    return { factor: factorOf(rope), lowFreqFactor, highFreqFactor };
  },

  proportional: ({ rope, d }) => {
    if (factorOf(rope, 1) !== 1) throw new UserError("config_proportional", { given: rope.factor });
    return { fraction: number([rope], "partial_rotary_factor", { otherwise: 1, least: 2 / d, most: 1 }) };
  },
};

function atLeastTwo(d) {
  if (d < 4) throw new UserError("one_pair");
  return {};
}

/** Raise where YaRN's ramp would run backwards: training was too short for its slow end. */
export function checkRamp(settings) {
  const { betaFast, betaSlow, trained } = settings;
  if (betaFast < betaSlow) throw new UserError("betas", { betaFast, betaSlow });
  const [first, last] = rampEnds(settings);
  if (first > last) throw new UserError("ramp", { trained, betaSlow });
}
