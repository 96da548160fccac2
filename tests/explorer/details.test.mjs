// What panels compute beyond what their copied Python shows, against posenc; and what they refuse.
import assert from "node:assert/strict";
import { test } from "node:test";
import { UserError } from "../../posenc/explorer/core/errors.js";
import { speaker } from "../../posenc/explorer/core/text.js";
import data from "../../posenc/explorer/data/trained.js";
import { parse } from "../../posenc/explorer/math/expression.js";
import { frequencies } from "../../posenc/explorer/math/scaling.js";
import { readConfig } from "../../posenc/explorer/math/rope_config.js";
import { panel as bias } from "../../posenc/explorer/panels/bias.js";
import { panel as clock } from "../../posenc/explorer/panels/clock.js";
import { panel as masks } from "../../posenc/explorer/panels/masks.js";
import { panel as ownWave } from "../../posenc/explorer/panels/own_wave.js";
import { panel as stretching } from "../../posenc/explorer/panels/stretching.js";
import { panel as trained } from "../../posenc/explorer/panels/trained.js";
import { close, fixture } from "./close.mjs";
import { settingsFor } from "./page.mjs";

const fixtures = fixture("details");
const PANELS = [clock, bias, masks, stretching, ownWave, trained];

for (const { settings, ...expected } of fixtures.clock) {
  test(`clock ${JSON.stringify(settings)}`, () => {
    const found = clock.compute(settingsFor(clock, settings));
    assert.equal(found.first, 0);
    close(found.periods, expected.periods, "periods");
    close(found.digits, expected.digits, "digits");
    [0, 1, 7, 40, 63].forEach((at, i) => close(found.rows[at], expected.rows[i], `row ${at}`));
    close(found.digitSteps, expected.digitSteps, "steps of the digits");
    close([found.handStep], [expected.handStep], "step of the hands");
    close(found.hands, expected.periods.map((period) => (settings.position / period) % 1), "hands");
  });
}

test("a hand in the second half of its dial is a digit that is 1", () => {
  for (const position of [0, 1, 6, 7, 8, 23]) {
    const { hands, digits } = clock.compute(settingsFor(clock, { position, count: 5 }));
    assert.deepEqual(hands.map((turns) => (turns >= 0.5 ? 1 : 0)), digits);
  }
});

for (const { settings, both, causal } of fixtures.bias) {
  test(`bias ${JSON.stringify(settings)}`, () => {
    const all = { token_token: true, token_position: true, position_token: true, position_position: true };
    const row = (matrix) => matrix.slice(settings.query * settings.tokens, (settings.query + 1) * settings.tokens);
    for (const [isCausal, expected] of [[false, both], [true, causal]]) {
      const found = bias.compute(settingsFor(bias, { ...settings, ...all, causal: isCausal }));
      const seen = isCausal ? settings.query + 1 : settings.tokens;
      for (const [name, matrix] of Object.entries(found.parts)) {
        close(row(matrix).slice(0, seen), expected[name].slice(0, seen), name);
      }
      for (const name of Object.keys(all)) {
        if (!(name in found.parts)) assert.ok(expected[name].every((value) => value === 0), `${name} is left out`);
      }
      close(found.row, expected.total.slice(0, seen), "total");
      assert.ok(row(found.total).slice(seen).every(Number.isNaN));
      if (!isCausal) found.heads.forEach((curve, head) => close(curve, expected.heads[head], `head ${head}`));
    }
  });
}

test("a part that is switched off is left out of the score", () => {
  const kind = { kind: "transformer_xl", tokens: 10, query: 4, causal: false };
  const on = (names) => {
    const every = ["token_token", "token_position", "position_token", "position_position"];
    const toggles = Object.fromEntries(every.map((name) => [name, names.includes(name)]));
    return bias.compute(settingsFor(bias, { ...kind, ...toggles }));
  };
  const two = on(["token_position", "position_position"]);
  const sum = two.parts.token_position.map((x, i) => x + two.parts.position_position[i]);
  close(two.total, sum, "two of four");
  assert.ok(on([]).total.every((x) => x === 0));
});

for (const { settings, seen, first } of fixtures.masks) {
  test(`masks ${JSON.stringify(settings)}`, () => {
    const found = masks.compute(settingsFor(masks, { sinks: 0, convention: "included", ...settings }));
    assert.deepEqual(found.first, first);
    assert.equal(found.seen, seen);
    const row = first.slice(settings.query * settings.tokens);
    assert.equal(found.reach.at(-1), row.filter((layer) => layer > 0).length);
    if (settings.rule === "window" && settings.causal && !settings.sinks) assert.deepEqual(found.reach, found.predicted);
  });
}

for (const { settings, ...expected } of fixtures.stretching) {
  test(`stretching ${JSON.stringify(settings)}`, () => {
    const found = stretching.compute(settingsFor(stretching, settings));
    const row = found.rows[found.chosen];
    close(row.wavelengths, expected.wavelengths, "wavelengths");
    close(row.turnsInTraining, expected.turns, "turns");
    close([row.gain], [expected.gain], "gain");
    assert.deepEqual([row.once, row.fresh, row.target], [expected.once, expected.fresh, expected.target]);
    const overlaid = stretching.compute(settingsFor(stretching, { ...settings, overlay: true }));
    assert.equal(overlaid.rows.length, 7);
  });
}

const STAND_IN = { d: 16, trained: 10, factor: 4 };

for (const { name, text, ropes } of fixtures.configs) {
  test(`config.json: ${name}`, () => {
    const found = readConfig(text, STAND_IN);
    assert.equal(found.length, ropes.length);
    ropes.forEach((expected, i) => {
      const { layer, settings, target, name } = found[i];
      assert.deepEqual([layer, settings.d, settings.trained, target], [expected.layer, expected.turned, expected.trained, expected.target]);
      const { inverse, gain } = frequencies(name, { ...settings, length: target });
      close([gain], [expected.gain], "gain");
      const wavelength = (w) => (w === 0 ? 0 : 1 / w);
      close(Array.from(inverse, wavelength), expected.inverse.map(wavelength), "1 / frequency", 1e-8);
    });
    const s = settingsFor(stretching, { method: "config", config: text });
    assert.equal(stretching.compute(s).rows.length, ropes.length + 1);
    assert.match(stretching.python(s), /pe\.Rotary\(/);
  });
}

const head = { head_dim: 8, max_position_embeddings: 64 };
const scaled = (rope, more = {}) => JSON.stringify({ ...head, ...more, rope_scaling: rope });
const HOSTILE = [
  ["", "config_empty"],
  ["  \n", "config_empty"],
  ["{", "config_not_json"],
  ['{"rope_theta": NaN}', "config_not_json"],
  ["[".repeat(15_000), "config_not_json"],
  ["<script>alert(1)</script>", "config_not_json"],
  ["[]", "config_not_object"],
  ["null", "config_not_object"],
  ["3", "config_not_object"],
  ['"yarn"', "config_not_object"],
  ['{"rope_scaling": "yarn"}', "config_rope"],
  ['{"rope_scaling": []}', "config_rope"],
  ['{"head_dim": 7}', "config_odd"],
  ['{"head_dim": "64"}', "config_whole"],
  ['{"head_dim": 1e9}', "config_range"],
  ['{"head_dim": -2}', "config_range"],
  ['{"head_dim": 1e999}', "config_whole"],
  ['{"hidden_size": 100}', "config_missing"],
  ['{"hidden_size": 100, "num_attention_heads": 0}', "config_range"],
  ['{"hidden_size": 100, "num_attention_heads": 3}', "config_heads"],
  ['{"head_dim": 64, "partial_rotary_factor": 2}', "config_range"],
  ['{"head_dim": 64, "partial_rotary_factor": 0.001}', "config_odd"],
  ['{"head_dim": 64, "rope_theta": "10000"}', "config_number"],
  ['{"head_dim": 64, "rope_theta": 0}', "config_range"],
  ['{"head_dim": 64, "rope_theta": 1}', "config_range"],
  ['{"head_dim": 64, "max_position_embeddings": 1.5}', "config_whole"],
  [scaled({ rope_type: "magic" }), "config_type"],
  [scaled({ rope_type: "__proto__" }), "config_type"],
  [scaled({ rope_type: "constructor" }), "config_type"],
  [scaled({ rope_type: { a: 1 } }), "config_type"],
  [scaled({ rope_type: "x".repeat(5000) }), "config_type"],
  [scaled({ rope_type: "linear" }), "config_missing"],
  [scaled({ rope_type: "linear", factor: 0.5 }), "config_range"],
  [scaled({ rope_type: "linear", factor: "8" }), "config_number"],
  [scaled({ rope_type: "dynamic", factor: 2 }, { head_dim: 2 }), "one_pair"],
  [scaled({ rope_type: "yarn" }), "config_missing"],
  [scaled({ rope_type: "yarn", factor: 4, beta_fast: 1, beta_slow: 2 }), "betas"],
  [scaled({ rope_type: "yarn", factor: 4, rope_theta: 2, original_max_position_embeddings: 2 }), "ramp"],
  [scaled({ rope_type: "yarn", factor: 4, original_max_position_embeddings: -5 }), "config_range"],
  [scaled({ rope_type: "llama3", factor: 8 }), "config_missing"],
  [scaled({ rope_type: "llama3", factor: 8, low_freq_factor: 4, high_freq_factor: 1 }), "config_range"],
  [scaled({ rope_type: "longrope" }), "config_missing"],
  [scaled({ rope_type: "longrope", short_factor: 3 }), "config_list"],
  [scaled({ rope_type: "longrope", short_factor: [1, 2] }), "config_count"],
  [scaled({ rope_type: "longrope", short_factor: [1, 1, 1, 0] }), "config_number"],
  [scaled({ rope_type: "longrope", short_factor: [1, 1, 1, null] }), "config_number"],
  [scaled({ rope_type: "proportional", factor: 2 }), "config_proportional"],
  [JSON.stringify({ rope_parameters: Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`l${i}`, {}])) }), "config_layers"],
];

function message(panel, changes, key) {
  let found;
  try {
    panel.compute(settingsFor(panel, changes));
  } catch (error) {
    found = error;
  }
  assert.ok(found instanceof UserError, `${JSON.stringify(changes).slice(0, 200)}: ${found}`);
  assert.equal(found.key, key, JSON.stringify(changes).slice(0, 200));
  for (const lang of ["en", "zh"]) {
    const text = speaker(lang, panel)(found.key, found.values);
    assert.ok(!/\{\w+\}/.test(text) && text.length < 300, text);
    assert.notEqual(text, found.key);
  }
}

test("a config.json that cannot be used gives a clear message", () => {
  for (const [config, key] of HOSTILE) message(stretching, { method: "config", config }, key);
  assert.equal({}.polluted, undefined);
});

test("methods that cannot work with the sliders say so", () => {
  message(stretching, { method: "ntk", d: 2 }, "one_pair");
  message(stretching, { method: "yarn", trained: 3 }, "ramp");
  const { rows } = stretching.compute(settingsFor(stretching, { method: "linear", d: 2, trained: 3, overlay: true }));
  assert.deepEqual(rows.map(({ name }) => name), ["none", "linear", "yarn", "llama3", "longrope"]);
});

for (const { settings, ...expected } of fixtures.waves) {
  test(`own wave ${JSON.stringify(settings)}`, () => {
    const { rows, mean, checks, passed, count } = ownWave.compute(settingsFor(ownWave, settings));
    assert.equal(count, 64);
    [0, 1, 5, 63].forEach((at, i) => close(rows[at], expected.rows[i], `row ${at}`));
    close(mean, expected.mean, "products");
    for (const name of ["far", "residual", "spread", "fall"]) close([checks[name]], [expected[name]], name);
    assert.deepEqual([checks.distinct, checks.beyond], [expected.distinct, expected.beyond]);
    const sine = settings.expression === "sin(2*pi*t)" && settings.pairing === "quadrature";
    // A straight line is shifted by a matrix as well: it is no wave, and grows.
    const line = settings.expression === "t / 100";
    assert.deepEqual([passed.shift_linear, passed.relative], [sine || line, sine]);
    assert.equal(passed.bounded, !line);
  });
}

test("formulas follow the rules of arithmetic", () => {
  const cases = [
    ["t", (t) => t],
    ["-t^2", (t) => -(t ** 2)],
    ["2^-t", (t) => 2 ** -t],
    ["2**3**t", (t) => 2 ** (3 ** t)],
    ["1 - 2 - t", (t) => -1 - t],
    ["8 / 2 / (t + 1)", (t) => 4 / (t + 1)],
    ["-7 % 3 + 0*t", () => 2],
    ["+t - -t", (t) => 2 * t],
    ["1.5e1*t + .5", (t) => 15 * t + 0.5],
    ["SIN(PI * T)", (t) => Math.sin(Math.PI * t)],
    ["max(t, 0.2, 1 - t)", (t) => Math.max(t, 0.2, 1 - t)],
    ["min(0.3, t)", (t) => Math.min(0.3, t)],
    ["sqrt(exp(log(t + 1)))", (t) => Math.sqrt(t + 1)],
    ["floor(t) + ceil(t) + sign(t - 2) + abs(t) + tanh(t) + tan(t) + cos(t) + frac(t)",
      (t) => Math.floor(t) + Math.ceil(t) + Math.sign(t - 2) + Math.abs(t) + Math.tanh(t) + Math.tan(t) + Math.cos(t) + t - Math.floor(t)],
  ];
  for (const [text, function_] of cases) {
    const { run } = parse(text);
    const at = [0.1, 0.4, 1.7, 3.2];
    close(at.map(run), at.map(function_), text);
  }
});

test("what is not a formula gives a clear message", () => {
  const hostile = [
    ["", "empty_formula"],
    ["   ", "empty_formula"],
    ["2 +", "ends_early"],
    ["(t", "ends_early"],
    ["sin(t", "ends_early"],
    ["t)", "unexpected"],
    ["2t", "unexpected"],
    ["t t", "unexpected"],
    ["* t", "unexpected"],
    ["sin t", "unexpected"],
    ["sin()", "unexpected"],
    ["t;1", "unexpected"],
    ["t = 1", "unexpected"],
    ["t['constructor']", "unexpected"],
    ["`${t}`", "unexpected"],
    ["т", "unexpected"],
    ["alert(1)", "unknown_name"],
    ["constructor(t)", "unknown_name"],
    ["__proto__", "unknown_name"],
    ["toString", "unknown_name"],
    ["window", "unknown_name"],
    ["sin(t, t)", "arguments"],
    ["max(t)", "arguments"],
    ["3", "no_variable"],
    ["sin(1)", "no_variable"],
    ["1/0 + t", "not_finite"],
    ["log(0) * t", "not_finite"],
    ["9e999 * t", "number_too_large"],
    [`${"(".repeat(60)}t${")".repeat(60)}`, "too_deep"],
    [`${"-".repeat(100)}t`, "too_deep"],
    [`${"2^".repeat(90)}t`, "too_deep"],
    ["t + ".repeat(60), "too_long"],
    ["log(t)", "no_value"],
    ["1/t", "no_value"],
    ["exp(t^9)", "no_value"],
  ];
  for (const [expression, key] of hostile) message(ownWave, { source: "typed", expression }, key);
  message(ownWave, { pairing: "mismatched", frequencies: "one" }, "same_frequency");
});

for (const { settings, ...expected } of fixtures.trained) {
  test(`trained ${settings.table} after ${settings.steps} steps`, () => {
    const found = trained.compute(settingsFor(trained, settings));
    close(found.norms, expected.norms, "sizes");
    close(found.cosines[settings.position], expected.cosines, "cosines");
    close(found.shares, expected.shares, "shares");
    found.paths.forEach((path, i) => close(path, expected.paths[i], `direction ${i}`));
  });
}

test("rows that training never read stay as they began", () => {
  const [before, after] = ["0", String(data.steps.at(-1))].map((steps) => trained.compute(settingsFor(trained, { table: "learned", steps })));
  const change = (n) => Math.hypot(...before.rows[n].map((x, j) => x - after.rows[n][j]));
  const changes = before.rows.map((_, n) => change(n));
  const unread = Math.max(...changes.slice(96));
  // One byte per number rounds the same row differently in two tables.
  assert.ok(unread < 0.2 * Math.min(...changes.slice(0, 96)), `${unread}`);
});

test("every panel writes a table of its own data, and Python", () => {
  for (const panel of PANELS) {
    const s = settingsFor(panel);
    const { head, rows } = panel.table(panel.compute(s), s);
    assert.ok(rows.length > 8, panel.id);
    for (const row of rows) assert.equal(row.length, head.length, panel.id);
    assert.match(panel.python(s), /import posenc as pe\n/);
  }
});
