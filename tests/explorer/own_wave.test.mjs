// Own waves and the formulas that make them, against posenc, and what is refused of them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "../../posenc/explorer/math/expression.js";
import { panel as ownWave } from "../../posenc/explorer/panels/own_wave.js";
import { close, fixture } from "./close.mjs";
import { message } from "./message.mjs";
import { settingsFor } from "./page.mjs";

for (const { settings, ...expected } of fixture("waves")) {
  test(`own wave ${JSON.stringify(settings)}`, () => {
    const { rows, mean, checks, passed, count } = ownWave.compute(settingsFor(ownWave, settings));
    assert.equal(count, 64);
    [0, 1, 5, 63].forEach((at, i) => close(rows[at], expected.rows[i], `row ${at}`));
    close(mean, expected.mean, "products");
    for (const name of ["far", "residual", "spread", "fall"]) close([checks[name]], [expected[name]], name);
    assert.deepEqual([checks.distinct, checks.beyond], [expected.distinct, expected.beyond]);
    const sine = settings.expression === "sin(2*pi*t)" && settings.pairing === "quadrature";
    // A straight line and an exponential are shifted by a matrix as well, which is no rotation.
    const line = settings.expression === "t / 100";
    const shifted = sine || line || settings.expression === "exp(-t)";
    assert.deepEqual([passed.shift_linear, passed.relative], [shifted, sine]);
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
