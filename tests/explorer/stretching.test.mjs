// Stretched rotations and config.json files against posenc, and what is refused of them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { used } from "../../posenc/explorer/core/uses.js";
import { frequencies } from "../../posenc/explorer/math/scaling.js";
import { readConfig } from "../../posenc/explorer/math/rope_config.js";
import { panel as stretching } from "../../posenc/explorer/panels/stretching.js";
import { close, fixture } from "./close.mjs";
import { message } from "./message.mjs";
import { settingsFor } from "./page.mjs";

for (const { settings, ...expected } of fixture("stretching")) {
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

for (const { name, text, ropes } of fixture("configs")) {
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

for (const { name, text, length, ropes } of fixture("published")) {
  test(`config.json of ${name}, as posenc reads it or not at all`, () => {
    const refused = refusal(text);
    if (!ropes.length || refused) return assert.match(refused ?? "", /^config_(unturned|otherwise|missing)$/);
    const alike = ({ name: rule, settings }, expected) => {
      const { inverse, gain } = frequencies(rule, { ...settings, length });
      const near = (a, b) => Math.abs(a - b) <= 1e-9 * Math.abs(b);
      return inverse.length === expected.inverse.length && near(gain, expected.gain) &&
        expected.inverse.every((w, i) => near(inverse[i], w));
    };
    const found = readConfig(text, STAND_IN);
    for (const each of found) assert.ok(ropes.some((rope) => alike(each, rope)), `${each.layer} ${each.type}`);
    for (const rope of ropes) assert.ok(found.some((each) => alike(each, rope)), JSON.stringify(rope).slice(0, 90));
  });
}

test("most of what turns is shown, and not refused", () => {
  const turning = fixture("published").filter(({ ropes }) => ropes.length);
  const refused = turning.filter(({ text }) => refusal(text) !== null);
  assert.ok(refused.length <= turning.length / 10, `${refused.length} of ${turning.length} are refused`);
});

function refusal(text) {
  try {
    readConfig(text, STAND_IN);
  } catch ({ key }) {
    return key;
  }
  return null;
}

const head = { head_dim: 8, max_position_embeddings: 64 };
const scaled = (rope, more = {}) => JSON.stringify({ ...head, ...more, rope_scaling: rope });
// As deep as a stack lets it be read, and deeper than it lets it be written.
const deep = "[".repeat(6_000) + "]".repeat(6_000);
const HOSTILE = [
  ["", "config_empty"],
  ["  \n", "config_empty"],
  ["{", "config_not_json"],
  ['{"rope_theta": NaN}', "config_not_json"],
  ['{"rope_theta": Infinity}', "config_number"],
  ["[".repeat(15_000), "config_not_json"],
  ["<script>alert(1)</script>", "config_not_json"],
  ["[]", "config_not_object"],
  ["null", "config_not_object"],
  ["3", "config_not_object"],
  ['"yarn"', "config_not_object"],
  ['{"model_type": "gpt2", "n_embd": 768, "n_positions": 1024}', "config_unturned"],
  ['{"model_type": "falcon", "alibi": true, "hidden_size": 64, "num_attention_heads": 1}', "config_unturned"],
  ['{"text_config": {"model_type": "inkling2_loop_text"}}', "config_unturned"],
  ['{"model_type": "chatglm", "rope_ratio": 500, "kv_channels": 128}', "config_otherwise"],
  ['{"model_type": {"toString": 1}, "head_dim": 7}', "config_odd"],
  ['{"model_type": "__proto__", "head_dim": 7}', "config_odd"],
  ['{"text_config": {"model_type": "bert"}, "model_type": "other"}', "config_unturned"],
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
  [scaled({ rope_type: { toString: 1 } }), "config_type"],
  [`{"rope_scaling": {"rope_type": ${deep}}}`, "config_type"],
  [`{"head_dim": ${deep}}`, "config_whole"],
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

test("a config.json that cannot be used gives a clear message", () => {
  for (const [config, key] of HOSTILE) message(stretching, { method: "config", config }, key);
  assert.equal({}.polluted, undefined);
});

test("a config.json leaves to the page what it does not say", () => {
  const whole = stretching.controls.find(({ id }) => id === "config").value;
  const cases = [
    [whole, []],
    ["{}", ["d", "trained", "factor"]],
    ['{"head_dim": 8}', ["trained", "factor"]],
    ['{"rope_scaling": {"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 64}}', ["d"]],
    ["{", []],
  ];
  const row = (s) => stretching.compute(s).rows[1];
  for (const [config, expected] of cases) {
    const s = settingsFor(stretching, { method: "config", config });
    assert.deepEqual(used(stretching, s), expected, config);
    const factor = stretching.controls.find(({ id }) => id === "factor");
    assert.equal(factor.show(s), expected.includes("factor"), config);
    if (config === "{") continue;
    for (const [key, other] of Object.entries({ d: 32, base: 7, trained: 20, factor: 9 })) {
      const same = JSON.stringify(row({ ...s, [key]: other })) === JSON.stringify(row(s));
      assert.equal(same, !expected.includes(key), `${key} of ${config}`);
    }
  }
});

test("methods that cannot work with the sliders say so", () => {
  message(stretching, { method: "ntk", d: 2 }, "one_pair");
  message(stretching, { method: "yarn", trained: 3 }, "ramp");
  const { rows } = stretching.compute(settingsFor(stretching, { method: "linear", d: 2, trained: 3, overlay: true }));
  assert.deepEqual(rows.map(({ name }) => name), ["none", "linear", "yarn", "llama3", "longrope"]);
});
