// Chapters on texts longer than those of training: what they draw is what was measured and computed,
// what one takes by hand is the length, and nothing is told early.
import assert from "node:assert/strict";
import { test } from "node:test";
import { THEMES } from "../../posenc/explorer/core/palette.js";
import { Recorder } from "../../posenc/explorer/core/recorder.js";
import { parse, settle } from "../../posenc/explorer/core/settings.js";
import { speaker } from "../../posenc/explorer/core/text.js";
import data from "../../posenc/explorer/data/compare.js";
import { NAMES } from "../../posenc/explorer/math/compared.js";
import { METHODS } from "../../posenc/explorer/math/stretched.js";
import { PANELS } from "../../posenc/explorer/panels/index.js";
import { STORY } from "../../posenc/explorer/story/index.js";

const COLORS = THEMES.light;
const [beyond, stretching] = ["beyond", "stretching"].map((id) => STORY.find((each) => each.id === id));

/** What a chapter paints, as SVG, and the description of its painting. */
function painted(chapter, changes, width = 690) {
  const { settings } = parse("", PANELS, { lang: "en", theme: "light" });
  const s = { ...settle(chapter.panel, settings, chapter), told: true, ...changes };
  const found = {};
  const stage = { width, paint: (_, spec, painter) => Object.assign(found, { spec, painter }) };
  chapter.draw(stage, chapter.panel.compute(s), s, speaker("en", chapter.panel, chapter));
  const recorder = new Recorder();
  found.painter(recorder, width, found.spec.height, COLORS);
  return { ...found.spec, markup: recorder.markup, s };
}
const count = (markup, part) => markup.split(part).length - 1;
const texts = (markup) => [...markup.matchAll(/>([^<>]+)<\/text>/g)].map(([, text]) => text);

test("the names of the curves have the losses that were measured, and ≈ between them", () => {
  for (const read of data.lengths) {
    const seen = texts(painted(beyond, { read }).markup);
    for (const name of NAMES)
      assert.ok(seen.includes(data.encodings[name].loss[read].mean.toFixed(2)), `${name} at ${read}`);
  }
  const between = texts(painted(beyond, { read: 181 }).markup).filter((text) => text.startsWith("≈"));
  assert.equal(between.length, NAMES.length);
});

test("the names of the losses say at which length, and the handle is at the end that the answer tells of", () => {
  assert.equal(painted(beyond, {}).s.read, 512);
  for (const read of [512, 181]) assert.ok(texts(painted(beyond, { read }).markup).includes(`at ${read} bytes`));
});

test("before the answer no loss beyond the trained length is drawn, and nothing of longer texts", () => {
  const before = painted(beyond, { read: 512, told: false });
  const seen = texts(before.markup);
  const losses = seen.filter((text) => /^\d\.\d\d$/.test(text)).sort();
  assert.deepEqual(losses, NAMES.map((name) => data.encodings[name].loss[64].mean.toFixed(2)).sort());
  assert.equal(count(before.markup, COLORS.unseen), 0);
  assert.equal(before.markup, painted(beyond, { read: 64, told: false }).markup);
  assert.deepEqual([before.grab, before.steps], [undefined, undefined]);
  assert.match(before.label, /hidden until you predict/);
  assert.equal(beyond.panel.controls.find(({ id }) => id === "read").show({ told: false }), false);
  const after = painted(beyond, { read: 512 });
  assert.ok(count(after.markup, COLORS.unseen) > 0);
});

test("the dials of RoPE and the rows are unseen where training showed nothing, by dashes and by colour", () => {
  const drawn = (read) => painted(beyond, { read }).markup.split("\n").filter((each) => each.includes(`stroke="${COLORS.unseen}"`));
  // One in the key; two dials; the outlines and the feet of three rows: T5's buckets were all trained.
  assert.deepEqual([64, 128, 512].map((read) => drawn(read).length), [1, 9, 9]);
  const thick = drawn(512).filter((each) => /stroke-width="([2-9])/.test(each));
  assert.equal(thick.length, 6);
  for (const each of thick) assert.match(each, /stroke-dasharray/);
  const { rows } = beyond.panel.compute(painted(beyond, { read: 512 }).s);
  const known = (name) => rows[name].fresh.filter((fresh) => !fresh).length;
  assert.deepEqual(["learned", "rotary", "t5", "alibi"].map(known), [0, 64, 512, 64]);
  for (const { weights } of Object.values(rows))
    assert.ok(Math.abs(weights.reduce((sum, weight) => sum + weight, 0) - 1) < 1e-12);
});

test("what is new is said where something is", () => {
  const said = (read) => texts(painted(beyond, { read }).markup).filter((text) => /never|penalties|share/.test(text));
  assert.deepEqual(said(64), ["never seen"]);
  assert.equal(said(65).length, 5);
});

test("the head of ALiBi that is shown gives next to nothing to new distances, the shallowest most of its weight", () => {
  const beyondTrained = (head) => {
    const { weights, fresh } = beyond.panel.compute({ ...painted(beyond, {}).s, head }).rows.alibi;
    return weights.reduce((sum, weight, n) => (fresh[n] ? sum + weight : sum), 0);
  };
  assert.ok(beyondTrained(painted(beyond, {}).s.head) < 1e-6);
  const shallowest = beyondTrained(3);
  assert.ok(0.7 < shallowest && shallowest < 0.8, String(shallowest));
});

test("formulas follow the length and the method, in the colour of what they meet", () => {
  const lines = (chapter, changes) => {
    const { s } = painted(chapter, changes);
    return chapter.formula(s, chapter.panel.compute(s)).flat().join("; ");
  };
  assert.ok(!lines(beyond, { told: false }).includes("63"));
  assert.match(lines(beyond, { read: 64 }), /#a\{63 θ_2 = 0.63\}; #a\{63 θ_2 = 0.63\}$/);
  assert.match(lines(beyond, { read: 512 }), /#a\{63 θ_2 = 0.63\}; #unseen\{511 θ_2 = 5.11\}$/);
  assert.match(lines(stretching, { method: "none" }), /#a\{4095 θ_\{23\} = 5.46\}; #unseen\{16383 h_\{23\} = 21.8\}$/);
  assert.match(lines(stretching, { method: "linear" }), /#a\{16383 h_\{31\} = 0.546\}$/);
  assert.match(lines(stretching, { method: "rerope" }), /min\(m - n, trained - 1\); .*#a\{4095 h_\{31\} = 0.546\}$/);
});

test("tables beside the answers have every measured loss, and a reason or a price for each", () => {
  for (const lang of ["en", "zh"]) {
    const facts = (chapter) => chapter.facts(speaker(lang, chapter.panel, chapter));
    const all = facts(beyond);
    assert.equal(all.rows.length, NAMES.length);
    const ends = all.rows.map((row) => Number(row.at(-2)));
    assert.deepEqual(ends, [...ends].sort((one, other) => one - other));
    const methods = facts(stretching);
    for (const [i, method] of METHODS.entries()) {
      const found = data.methods[method];
      const wanted = [128, 256, 512].map((length) => found?.[length].toFixed(2) ?? "–");
      assert.deepEqual(methods.rows[i].slice(1, 4), wanted, method);
    }
    for (const { head, rows } of [all, methods])
      for (const row of rows) assert.ok(row.length === head.length && row.at(-1).length > 10, String(row));
  }
});

test("at twice the length linear is worse than nothing, and the picture keeps that until it is asked", () => {
  const at128 = (method) => data.methods[method][128];
  assert.ok(at128("linear") > at128("none") + 0.5);
  assert.equal(stretching.predict.right(), "worse");
  const told = (changes) => painted(stretching, { method: "linear", ...changes });
  assert.equal(told({ told: false }).markup, painted(stretching, { method: "none", told: false }).markup);
  assert.notEqual(told({ told: true }).markup, told({ told: false }).markup);
  assert.equal(stretching.panel.controls.find(({ id }) => id === "method").show({ told: false }), false);
});

test("a flat guess lies on RoPE's loss at the trained length, and up is worse", () => {
  const guessed = (value) => {
    const { markup } = painted(beyond, { guess: Array(13).fill(value) });
    const [, path] = markup.match(/<path d="([^"]+)"[^>]*stroke-dasharray="7 5"/);
    return path.match(/[\d.]+ [\d.]+/g).map((place) => Number(place.split(" ")[1]));
  };
  const [low, flat, high] = [-0.1, 0, 0.5].map(guessed);
  assert.equal(new Set(flat).size, 1);
  assert.ok(low[0] > flat[0] && flat[0] > high[0]);
  const { markup } = painted(beyond, {});
  // RoPE's curve is the thickest.
  const [, curve] = markup.match(/<path d="M[\d.]+ ([\d.]+)[^"]*" fill="none" stroke="[^"]+" stroke-width="3.5"/);
  assert.equal(Number(curve), flat[0]);
});

test("the length is taken anywhere on the curves, at its place on the axis", () => {
  for (const width of [690, 364]) {
    const { grab, markup } = painted(beyond, { read: 128 }, width);
    const [, x] = markup.match(/x="([\d.]+)"[^>]*>256<\/text>/);
    const { read } = grab(Number(x), 60, width)(Number(x), 60);
    assert.ok(Math.abs(read - 256) < 1, `${width}: ${read}`);
    assert.equal(grab(5, 300, width), null);
  }
});

test("at four times the length nine of 32 pairs are unseen, and none with linear, YaRN, Llama 3 or ReRoPE", () => {
  // One more line in that colour is in the key.
  const unseen = (method) => count(painted(stretching, { method }).markup, `stroke="${COLORS.unseen}"`) - 1;
  assert.deepEqual(["none", "linear", "yarn", "llama3", "rerope", "ntk"].map(unseen), [9, 0, 0, 0, 0, 8]);
  const said = (changes) => texts(painted(stretching, changes).markup).join("; ");
  assert.match(said({ method: "none" }), /9 of 32 pairs meet new angles; one token turns pair 0 by 1 rad/);
  assert.match(said({ method: "linear" }), /0 of 32 pairs .* by 0.25 rad \(trained: 1\)/);
  assert.match(said({ method: "yarn" }), /0 of 32 pairs .* by 1 rad/);
  assert.match(said({ method: "rerope" }), /0 of 32 pairs .* by 1 rad/);
});

test("no two methods have the same dials, but for ReRoPE, which turns as in training", () => {
  const steps = METHODS.filter((method) => method !== "rerope").map((method) => {
    const { rows, chosen } = stretching.panel.compute(painted(stretching, { method }).s);
    return rows[chosen].wavelengths.join();
  });
  assert.equal(new Set(steps).size, steps.length);
});

test("the end of the text is taken along its ruler, up to four times the trained length", () => {
  for (const width of [690, 364]) {
    const { grab, height } = painted(stretching, {}, width);
    let y = 0;
    while (y < height && !grab(width / 2, y, width)) y += 1;
    const factor = (x) => grab(width / 2, y, width)(x, y).factor;
    assert.ok(Math.abs(factor(width / 2) - 2) < 1e-9);
    assert.ok(Math.abs(factor(width - 13) - 4) < 1e-9);
    assert.equal(factor(-50), 1);
  }
});

test("heads of many pairs have no more dials than the picture has room for", () => {
  for (const [d, dials] of [[2, 1], [16, 8], [64, 32], [256, 32]]) {
    const { markup } = painted(stretching, { d, method: "linear" });
    assert.equal(count(markup, `stroke="${COLORS.accent}"`), dials, `d ${d}`);
  }
});
