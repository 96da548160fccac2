// Clocks, biases and masks, beyond what panels copy as Python, against posenc.
import assert from "node:assert/strict";
import { test } from "node:test";
import { panel as bias } from "../../posenc/explorer/panels/bias.js";
import { panel as clock } from "../../posenc/explorer/panels/clock.js";
import { panel as masks } from "../../posenc/explorer/panels/masks.js";
import { close, fixture } from "./close.mjs";
import { settingsFor } from "./page.mjs";

for (const { settings, ...expected } of fixture("clock")) {
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

for (const { settings, both, causal } of fixture("bias")) {
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

for (const { settings, seen, first } of fixture("masks")) {
  test(`masks ${JSON.stringify(settings)}`, () => {
    const found = masks.compute(settingsFor(masks, { sinks: 0, convention: "included", ...settings }));
    assert.deepEqual(found.first, first);
    assert.equal(found.seen, seen);
    const row = first.slice(settings.query * settings.tokens);
    assert.equal(found.reach.at(-1), row.filter((layer) => layer > 0).length);
    if (settings.rule === "window" && settings.causal && !settings.sinks) assert.deepEqual(found.reach, found.predicted);
  });
}
