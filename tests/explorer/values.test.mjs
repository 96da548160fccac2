// Single functions against posenc: whole numbers and roundings exactly, the rest to 1e-9.
import assert from "node:assert/strict";
import { test } from "node:test";
import { slopes } from "../../posenc/explorer/math/alibi.js";
import * as axial from "../../posenc/explorer/math/axial.js";
import { row } from "../../posenc/explorer/math/deberta.js";
import { inverseFrequencies } from "../../posenc/explorer/math/frequencies.js";
import { visible } from "../../posenc/explorer/math/masks.js";
import * as mrope from "../../posenc/explorer/math/mrope.js";
import { bfloat16, float16, float32 } from "../../posenc/explorer/math/precision.js";
import { frequencies, scalings } from "../../posenc/explorer/math/scaling.js";
import { bucket } from "../../posenc/explorer/math/t5.js";
import { close, fixture } from "./close.mjs";

const values = fixture("values");

// [from, value] wherever the value changes.
function steps(first, last, of) {
  const found = [];
  for (let at = first; at <= last; at++) {
    if (!found.length || found.at(-1)[1] !== of(at)) found.push([at, of(at)]);
  }
  return found;
}

test("buckets of T5, exactly", () => {
  for (const { settings, first, last, buckets } of values.t5) {
    assert.deepEqual(steps(first, last, (distance) => bucket(distance, settings)), buckets);
  }
});

test("rows of DeBERTa, exactly", () => {
  for (const { settings, first, last, rows } of values.deberta) {
    assert.deepEqual(steps(first, last, (distance) => row(distance, settings)), rows);
  }
});

test("slopes of ALiBi", () => {
  for (const { heads, kind, expected } of values.alibi) close(slopes(heads, kind), expected, heads);
});

test("scaled frequencies and gains", () => {
  const seen = new Set(["none"]);
  for (const { name, settings, inverse, gain } of values.scalings) {
    seen.add(name);
    const found = frequencies(name, settings);
    const what = `${name} ${JSON.stringify(settings)}`;
    close(found.inverse, inverse, what);
    // Slow pairs are far below 1: their wavelengths show what is wrong with them.
    const wavelength = (w) => (w === 0 ? 0 : 1 / w);
    close(Array.from(found.inverse, wavelength), inverse.map(wavelength), `1/w, ${what}`);
    close([found.gain], [gain], `gain, ${what}`);
  }
  assert.deepEqual([...seen].sort(), [...scalings].sort());
});

test("places on a grid", () => {
  for (const { d, base, place, angles } of values.axial) {
    const inverse = axial.frequencies(d, place.length, base);
    close(axial.angles(place, inverse), angles, `axial at ${place}`);
  }
  for (const { d, base, sections, interleaved, place, angles } of values.mrope) {
    const owner = mrope.axisOfPair(sections, interleaved);
    close(mrope.angles(place, inverseFrequencies(d, base), owner), angles, `mrope at ${place}`);
  }
});

test("masks", () => {
  for (const { rule, tokens, seen } of values.masks) {
    const found = Array.from({ length: tokens }, (_, q) =>
      Array.from({ length: tokens }, (_, k) => (visible(rule, q, k) ? "1" : "0")).join(""),
    );
    assert.deepEqual(found, seen, JSON.stringify(rule));
  }
});

test("roundings, exactly", () => {
  const number = (text) => (text === "inf" ? Infinity : text === "-inf" ? -Infinity : text);
  for (const [x, single, brain, half] of values.precision) {
    assert.equal(float32(x), number(single), `float32(${x})`);
    assert.equal(bfloat16(x), number(brain), `bfloat16(${x})`);
    assert.equal(float16(x), number(half), `float16(${x})`);
  }
  for (const round of [float32, bfloat16, float16]) {
    assert.ok(Number.isNaN(round(NaN)));
    assert.equal(round(-Infinity), -Infinity);
  }
});
