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

test("before the answer no loss beyond the trained length is drawn, and no angle is red", () => {
  const before = painted(beyond, { read: 512, told: false });
  const seen = texts(before.markup);
  const losses = seen.filter((text) => /^\d\.\d\d$/.test(text)).sort();
  assert.deepEqual(losses, NAMES.map((name) => data.encodings[name].loss[64].mean.toFixed(2)).sort());
  assert.equal(count(before.markup, COLORS.b), 0);
  assert.match(before.label, /has \?\./);
  const after = painted(beyond, { read: 512 });
  assert.ok(count(after.markup, COLORS.b) > 0);
  for (const told of [true, false]) {
    const lines = beyond.formula({ told, read: 512 }).flat().join();
    assert.equal(lines.includes("new"), told);
  }
});

test("the dials of RoPE and the rows are red where training showed nothing", () => {
  const reds = (read) => count(painted(beyond, { read }).markup, `stroke="${COLORS.b}"`);
  assert.deepEqual([64, 128, 512].map(reds), [0, 2, 2]);
  const { rows } = beyond.panel.compute(painted(beyond, { read: 512 }).s);
  const known = (name) => rows[name].fresh.filter((fresh) => !fresh).length;
  assert.deepEqual(["learned", "rotary", "t5", "alibi"].map(known), [0, 64, 512, 64]);
  for (const { weights } of Object.values(rows))
    assert.ok(Math.abs(weights.reduce((sum, weight) => sum + weight, 0) - 1) < 1e-12);
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

test("at four times the length nine of 32 pairs are red, and none with linear, YaRN or Llama 3", () => {
  // One more line in that colour is the text beyond the trained length.
  const reds = (method) => count(painted(stretching, { method }).markup, `stroke="${COLORS.b}"`) - 1;
  assert.deepEqual(["none", "linear", "yarn", "llama3", "ntk"].map(reds), [9, 0, 0, 0, 8]);
  const said = (changes) => texts(painted(stretching, changes).markup).join("; ");
  assert.match(said({ method: "none" }), /9 of 32 pairs meet new angles; one token turns pair 0 by 1 rad/);
  assert.match(said({ method: "linear" }), /0 of 32 pairs .* by 0.25 rad, in training by 1/);
  assert.match(said({ method: "yarn" }), /0 of 32 pairs .* by 1 rad/);
  const before = painted(stretching, { told: false });
  assert.equal(count(before.markup, COLORS.b), 0);
  assert.match(before.label, /: \? pairs/);
  assert.match(said({ told: false }), /\? of 32 pairs/);
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
