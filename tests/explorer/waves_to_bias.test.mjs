// Chapters on waves, on distance and on biases: what they say is so, what is taken by hand, what is drawn when.
import assert from "node:assert/strict";
import { test } from "node:test";
import { THEMES } from "../../posenc/explorer/core/palette.js";
import { dot } from "../../posenc/explorer/math/dot.js";
import { inverseFrequencies, wavelengths } from "../../posenc/explorer/math/frequencies.js";
import { vector } from "../../posenc/explorer/math/sinusoidal.js";
import { close } from "./close.mjs";
import { begun, chapterOf, painted, words } from "./painted.mjs";

const WIDTHS = [690, 364];
const FREQUENCIES = inverseFrequencies(64, 10_000);
const ofColor = (markup, color) => markup.split("\n").filter((line) => line.includes(`stroke="${THEMES.light[color]}"`));

/** Where of the picture the pointer takes hold, as [x, y] on a fine grid. */
function* places({ height }, width) {
  for (let y = 1; y < height; y += 3) for (let x = 1; x < width; x += 3) yield [x, y];
}

test("chapters keep their own encoding and sizes, whatever the workshop has", () => {
  const elsewhere = "a=alibi&b=learned&d=16&base=100&length=24&heads=2&bias.kind=deberta&bias.causal=1&distance.pairs=0";
  for (const id of ["waves", "distance", "bias"]) {
    const { holds } = chapterOf(id);
    const s = begun(id, elsewhere);
    for (const [name, value] of Object.entries(holds)) assert.equal(s[name], value, `${id}.${name}`);
  }
  assert.equal(begun("bias", elsewhere).kind, "alibi");
});

test("the last of 32 waves comes round after 47,000 positions, each a third longer than the one before", () => {
  const periods = Array.from(wavelengths(FREQUENCIES));
  assert.ok(periods[0] > 6 && periods[0] < 7);
  for (let i = 1; i < 32; i += 1) assert.ok(Math.abs(periods[i] / periods[i - 1] - 4 / 3) < 0.001);
  assert.equal(Math.round(periods[31] / 1000), 47);
  assert.equal(chapterOf("waves").predict.right(), "ten_thousands");
  assert.match(chapterOf("waves").text.en.ten_thousands, /47,000/);
});

test("a place in the table is a position and a row, and what is drawn of them is the encoding's", () => {
  for (const width of WIDTHS) {
    const s = begun("waves", "at=40&waves.first=21");
    const { spec, markup } = painted("waves", s, width);
    const seen = { lit: new Set(), first: new Set() };
    for (const [x, y] of places(spec, width)) {
      const follow = spec.grab(x, y, width);
      for (const [id, value] of Object.entries(follow?.(x, y) ?? {})) seen[id].add(value);
      // Dragged out of the picture, it stays in the table.
      for (const value of Object.values(follow?.(-999, 9999) ?? {})) assert.ok([0, 63].includes(value));
    }
    assert.equal(seen.lit.size > 60 && Math.max(...seen.lit), 95);
    assert.equal(seen.first.size > 50 && Math.max(...seen.first), 63);
    const value = vector(40, FREQUENCIES, 64)[21];
    assert.ok(words(markup).includes(value.toFixed(3)), `${value} is not written`);
  }
});

test("periods are drawn once the answer is told, and not before", () => {
  const before = words(painted("waves", begun("waves")).markup);
  assert.equal(before.filter((text) => text === "?").length, 5);
  assert.ok(before.every((text) => Number(text) < 100 || Number.isNaN(Number(text))), before.join(" "));
  const after = words(painted("waves", begun("waves", "", { told: true, guess: "tens" })).markup);
  for (const period of ["6.3", "63", "628", "6283", "47117"]) assert.ok(after.includes(period), period);
});

test("the mean of the cosines is the inner product of any two columns so far apart", () => {
  const { mean } = chapterOf("distance").panel.compute(begun("distance")).pairs;
  for (const n of [0, 40, 1000]) {
    const products = mean.map((_, k) => dot(vector(n, FREQUENCIES, 64), vector(n + k, FREQUENCIES, 64)) / 32);
    close(mean, products, `from ${n}`);
  }
});

test("that mean falls on the whole, ever more slowly, to a third, and rises again and again", () => {
  const { mean } = chapterOf("distance").panel.compute(begun("distance")).pairs;
  assert.ok(Math.abs(mean[127] - 1 / 3) < 0.01);
  const average = (from) => mean.slice(from, from + 32).reduce((sum, value) => sum + value, 0) / 32;
  const steps = [0, 32, 64].map((from) => average(from) - average(from + 32));
  assert.ok(steps.every((step) => step > 0) && steps[0] > steps[1] && steps[0] > steps[2]);
  assert.ok(mean[0] - mean[7] > mean[7] - mean[60]);
  assert.ok(mean.filter((value, k) => value > mean[k - 1]).length > 30);
});

test("that mean is about the logarithm of the formula, and the same behind as before", () => {
  const { mean } = chapterOf("distance").panel.compute(begun("distance")).pairs;
  const off = mean.map((value, k) => value - (1 - (Math.log(k) + 0.577) / Math.log(10_000))).slice(8);
  assert.ok(Math.abs(off.reduce((sum, value) => sum + value, 0) / off.length) < 0.02);
  assert.ok(off.every((value) => Math.abs(value) < 0.15));
  const column = (n) => vector(n, FREQUENCIES, 64);
  for (const k of [1, 5, 60]) close([dot(column(70), column(70 + k))], [dot(column(70), column(70 - k))], `${k}`);
});

test("the mean and what the reader drew are drawn once the answer is told", () => {
  const guess = Array.from({ length: 32 }, (_, i) => 1 - i / 16);
  const at = (changes) => painted("distance", begun("distance", "at=20", changes));
  const before = at({});
  assert.ok(!ofColor(before.markup, "a").length && words(before.markup).includes("?"));
  const after = at({ told: true, guess });
  assert.equal(ofColor(after.markup, "a").length, 1);
  assert.ok(words(after.markup).includes(after.data.pairs.mean[20].toFixed(3)));
  const [drawn] = ofColor(after.markup, "b");
  assert.match(drawn, /stroke-dasharray/);
  // From the upper edge, where 1 stands, to the lower one.
  const heights = [...drawn.matchAll(/[ML][\d.]+ ([\d.]+)/g)].map(([, y]) => Number(y));
  assert.equal(heights.length, guess.length);
  assert.ok(heights.every((y, i) => !i || y > heights[i - 1]));
  assert.equal(ofColor(at({ told: true, guess: "shown" }).markup, "b").length, 0);
});

test("a place in the picture is a distance", () => {
  for (const width of WIDTHS) {
    const { spec } = painted("distance", begun("distance"), width);
    const seen = new Set();
    for (const [x, y] of places(spec, width)) {
      const follow = spec.grab(x, y, width);
      if (follow) seen.add(follow(x, y).lit);
      for (const far of [-999, 9999]) if (follow) assert.ok([0, 127].includes(follow(far, y).lit));
    }
    assert.ok(seen.has(0) && seen.has(127) && seen.size > 100);
  }
});

test("in head 0 of ALiBi keys within 8 tokens of any query get 98% of its attention and more", () => {
  const { panel } = chapterOf("bias");
  const within = (hash) => {
    const { attention, distances } = panel.compute(begun("bias", hash));
    assert.ok(Math.abs(attention.reduce((sum, share) => sum + share, 0) - 1) < 1e-12);
    return attention.filter((_, i) => Math.abs(distances[i]) <= 8).reduce((sum, share) => sum + share, 0);
  };
  for (let at = 0; at < 48; at += 1) assert.ok(within(`at=${at}`) >= 0.98, `query ${at}`);
  assert.ok(within("at=24&bias.head=7") < 0.5);
});

test("attention is drawn once the answer is told, and not before", () => {
  const bars = (markup) => markup.split("\n").filter((line) => line.startsWith("<path") && line.includes(`fill="${THEMES.light.b}"`));
  for (const kind of chapterOf("bias").options.kind) {
    const before = painted("bias", begun("bias", `bias.kind=${kind}`));
    assert.deepEqual([bars(before.markup).length, before.spec.label.includes("%")], [0, false]);
    assert.ok(words(before.markup).every((text) => !text.includes("%")));
    const after = painted("bias", begun("bias", `bias.kind=${kind}`, { told: true, guess: "third" }));
    assert.equal(bars(after.markup).length, 48);
    assert.ok(words(after.markup).some((text) => /within 8 tokens: [\d.]+%/.test(text)));
  }
});

test("one scale of what is added holds for all heads, and says what its colours mean", () => {
  const heights = (kind, head) => {
    const { markup, data } = painted("bias", begun("bias", `bias.kind=${kind}&bias.head=${head}`));
    const texts = words(markup);
    const scale = texts.find((text) => text.startsWith("added to the score "));
    assert.ok(scale, String(texts));
    // The dots of the row, from the left edge of the text to its right one.
    const [, curve] = markup.match(new RegExp(`<path d="M([^"]*)" fill="none" stroke="${THEMES.light.a}" stroke-width="1.5"`));
    const y = curve.split("L").map((place) => Number(place.split(" ")[1]));
    assert.equal(y.length, 48);
    const drop = Math.max(...y) - Math.min(...y);
    return { scale, perPoint: drop / (Math.max(...data.row) - Math.min(...data.row)) };
  };
  for (const kind of chapterOf("bias").options.kind) {
    const [first, last] = [heights(kind, 0), heights(kind, 5)];
    assert.equal(first.scale, last.scale, kind);
    // Places in a picture have two digits.
    assert.ok(Math.abs(first.perPoint / last.perPoint - 1) < 0.05, `${kind}: ${first.perPoint} ${last.perPoint}`);
  }
  assert.ok(words(painted("waves", begun("waves")).markup).includes("value −1"));
});

test("a row of the matrix and a key below it are a query", () => {
  for (const width of WIDTHS) {
    const { spec } = painted("bias", begun("bias"), width);
    const seen = new Set();
    for (const [x, y] of places(spec, width)) {
      const follow = spec.grab(x, y, width);
      if (follow) seen.add(follow(x, y).query);
    }
    assert.deepEqual([...seen].sort((one, two) => one - two), Array.from({ length: 48 }, (_, i) => i));
  }
});
