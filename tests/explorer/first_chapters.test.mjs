// The chapters up to the circle: what they claim, what is taken by hand, and what is not told before its time.
import assert from "node:assert/strict";
import { test } from "node:test";
import data from "../../posenc/explorer/data/compare.js";
import { numberOf, ordered, orders } from "../../posenc/explorer/math/sentence.js";
import { STORY } from "../../posenc/explorer/story/index.js";
import { COLORS, begun, picture } from "./chapters.mjs";

const chapters = Object.fromEntries(STORY.map((chapter) => [chapter.id, chapter]));
const count = (markup, what) => markup.split(what).length - 1;
/** Before and after the answer, at settings of the chapter. */
function pictures(id, changes = {}, width = 690) {
  const s = { ...begun(chapters[id]), ...changes };
  return [false, true].map((told) => picture(chapters[id], { ...s, told }, width));
}
const computed = (id, changes = {}) => {
  const s = { ...begun(chapters[id]), ...changes };
  return chapters[id].panel.compute(s);
};

test("orders have numbers, from the reverse of the sentence to its own", () => {
  const all = Array.from({ length: orders("a b c d") }, (_, n) => ordered(4, n));
  assert.equal(new Set(all.map(String)).size, 24);
  all.forEach((order, n) => assert.equal(numberOf(order), n));
  assert.deepEqual([all[0], all[23]], [[3, 2, 1, 0], [0, 1, 2, 3]]);
  assert.equal(orders(Array(40).fill("word").join(" ")), 479_001_600);
});

test("permutation: in no order does a word get another output", () => {
  for (let order = 0; order < 6; order += 1)
    for (const change of computed("permutation", { order }).change) assert.ok(change < 1e-12);
});

test("permutation: a word is dragged to another place of the second row", () => {
  const [, { spec }] = pictures("permutation");
  const [first, last, low] = [60, 630, spec.height - 40];
  // man bites dog, and man goes to the end.
  const { order } = spec.grab(first, low, 690)(last, low);
  assert.deepEqual(ordered(3, order), [1, 0, 2]);
  assert.equal(spec.grab(first, 40, 690), null);
});

test("permutation: outputs of the second row show once told, each joined to its like", () => {
  const [before, after] = pictures("permutation");
  assert.equal(before.texts.filter((text) => text === "?").length, 3);
  assert.equal(after.texts.filter((text) => text === "?").length, 0);
  assert.deepEqual([before, after].map(({ markup }) => count(markup, 'stroke-width="3"')), [0, 3]);
});

test("permutation: twelve words have twelve colours, and a word that comes again has its own", () => {
  const words = "a b c d e f g h i j k a";
  const s = { ...begun(chapters.permutation, "en", `#permutation.words=${words}`), told: false };
  const { markup } = picture(chapters.permutation, s);
  const boxes = [...markup.matchAll(/stroke="(#\w+)" stroke-width="2"/g)].map(([, color]) => color);
  const [first, second] = [boxes.slice(0, 12), boxes.slice(12)];
  assert.equal(new Set(first).size, 11);
  assert.equal(first[0], first[11]);
  assert.deepEqual([...second].sort(), [...first].sort());
});

test("permutation: what a causal mask alone costs is as it was measured", () => {
  const { encodings, trainLength } = data;
  const { none, ...others } = Object.fromEntries(Object.entries(encodings).map(([name, { loss }]) => [name, loss[trainLength].mean]));
  const told = [none, Math.min(...Object.values(others)), Math.max(...Object.values(others))].map((loss) => loss.toFixed(2));
  assert.equal(STORY[9].id, "beyond");
  for (const lang of ["en", "zh"]) {
    assert.deepEqual(chapters.permutation.text[lang].answer.match(/\d\.\d\d/g), told);
    assert.match(chapters.permutation.text[lang].answer, /chapter 10|第 10 章/);
  }
});

test("number: far out two words look alike, and divided the step is that of the length", () => {
  const near = computed("number", { tokens: 1000, position: 998 });
  assert.ok(near.without > 80 && near.without < 100);
  assert.ok(near.angle < 1);
  for (const tokens of [10, 1000]) {
    const { step, rows } = computed("number", { tokens, position: 5, divided: true });
    assert.ok(Math.abs(step - 1 / tokens) < 1e-12);
    assert.ok(rows.every((row) => row.every((value) => Math.abs(value) < 1)));
  }
});

test("number: a position, divided or not, is written in digits, beside no other bar", () => {
  for (const tokens of [10, 1000, 10_000])
    for (const divided of [false, true])
      for (const width of [690, 364]) {
        const position = Math.min(7, tokens - 2);
        const [, { texts, markup }] = pictures("number", { tokens, position, divided }, width);
        const written = [position, position + 1].map((n) => String(divided ? n / tokens : n));
        for (const text of written) {
          assert.ok(texts.includes(text), `${text} in ${texts}`);
          const [, x, size] = markup.match(new RegExp(`x="([\\d.]+)" y="[\\d.]+" font-size="(\\d+)"[^>]*text-anchor="start"[^>]*>${text}<`)) ?? [];
          assert.ok(x, markup.match(new RegExp(`<text[^>]*>${text}<`))?.[0]);
          const bars = [...markup.matchAll(/<path d="M([\d.]+) [\d.]+L([\d.]+) [\d.]+L\2 /g)].map(([, ...sides]) => sides.map(Number));
          assert.ok(bars.length >= 18);
          const end = Number(x) + text.length * 0.58 * size;
          const over = bars.filter(([left]) => left > Number(x) + 2 && left < end);
          assert.deepEqual(over, [], `${text} at ${x} of ${width}`);
        }
        assert.ok(texts.every((text) => !/\de-/.test(text)), String(texts));
      }
});

test("number: the angle and the scale show once told, and n is dragged along the text", () => {
  for (const width of [690, 364]) {
    const [before, after] = pictures("number", { tokens: 1000, position: 900 }, width);
    assert.ok(before.texts.includes("?") && !before.texts.some((text) => text.includes("°")));
    assert.ok(after.texts.some((text) => /^0\.\d+°$/.test(text)), String(after.texts));
    const y = before.spec.height - (width < 520 ? 44 : 56);
    assert.deepEqual(before.spec.grab(100, y, width)(width - 16, y), { position: 999 });
    assert.deepEqual(before.spec.grab(100, y, width)(16, y), { position: 0 });
  }
});

test("binary: 7 is one digit from 15 and four from 8, which nothing shows before", () => {
  const { apart } = computed("binary", { position: 7 });
  assert.deepEqual([apart[15], apart[8], apart[6]], [1, 4, 1]);
  const [before, after] = pictures("binary");
  const shining = `fill="${COLORS.a}"`;
  assert.deepEqual([before, after].map(({ markup }) => count(markup, shining)), [12, 32]);
  assert.deepEqual([count(before.markup, `fill="${COLORS.b}"`), before.texts.includes("?")], [0, true]);
  const told = ({ position }, told) => chapters.binary.formula({ position, told }, computed("binary", { position })).flat().join();
  assert.match(told({ position: 7 }, false), /0111/);
  assert.doesNotMatch(told({ position: 9 }, false), /1001/);
  assert.match(told({ position: 9 }, true), /1001/);
});

test("binary: the frame follows the pointer along the columns", () => {
  for (const width of [690, 364]) {
    const [{ spec }] = pictures("binary", {}, width);
    const follow = spec.grab(width / 2, 40, width);
    assert.deepEqual(follow(width - 8, 40), { position: 15 });
    assert.deepEqual(follow(width < 520 ? 24 : 38, 40), { position: 0 });
    assert.equal(spec.grab(width / 2, spec.height - 10, width), null);
  }
});

/** Positions that the pointer gives on its way round a centre, from a turn to a turn, by sixteenths. */
function around(spec, [cx, cy], reach, from, to, width = 690) {
  const place = (turns) => [cx + reach * Math.cos(2 * Math.PI * turns), cy + reach * Math.sin(2 * Math.PI * turns)];
  const follow = spec.grab(...place(from), width);
  let found = follow(...place(from));
  const steps = Math.round(Math.abs(to - from) * 16);
  for (let i = 1; i <= steps; i += 1) found = follow(...place(from + ((to - from) * i) / steps));
  return found;
}

test("clock: a turn of a hand is its period, and all steps of the hands are equal", () => {
  const [before, after] = pictures("clock", { position: 7 });
  const dials = [...after.markup.matchAll(/<text [^>]*x="([\d.]+)" y="[\d.]+" font-size="12"[^>]*>(16|8|4|2)</g)];
  assert.deepEqual(dials.slice(0, 4).map(([, , period]) => Number(period)).sort((a, b) => a - b), [2, 4, 8, 16]);
  for (const [, x, period] of dials.slice(0, 4)) {
    assert.deepEqual(around(after.spec, [Number(x), 68], 40, 0.1, 1.1), { position: 7 + Number(period) });
    assert.deepEqual(around(after.spec, [Number(x), 68], 40, 0.1, -0.9), { position: 7 - Number(period) });
  }
  assert.ok(before.texts.includes("tips: ?") && !after.texts.includes("tips: ?"));
  // Fifteen steps of sixteen positions, and a scale for them: a step of one digit is 1 long, of four 2.
  const wide = (color) => [...after.markup.matchAll(new RegExp(`<path d="M([\\d.]+) [\\d.]+L([\\d.]+) [^"]*Z" fill="${color}"/>`, "g"))].map(([, from, to]) => to - from);
  const digits = wide(COLORS.b);
  assert.ok(Math.abs(digits[7] / digits[0] - 2) < 1e-3);
  const [zero, one] = [...after.markup.matchAll(/x="([\d.]+)"[^>]*>[01]</g)].slice(-2).map(([, x]) => Number(x));
  assert.ok(Math.abs(digits[0] - (one - zero)) < 0.1);
  assert.equal(count(after.markup, `fill="${COLORS.a}"`) - count(before.markup, `fill="${COLORS.a}"`), 15);
});

test("clock: the framed row follows the pointer", () => {
  const [{ spec }] = pictures("clock", { position: 7 });
  const row = (n) => spec.height - 38 - (15.5 - n) * 16;
  assert.deepEqual(spec.grab(200, row(7), 690)(200, row(12)), { position: 12 });
  assert.deepEqual(spec.grab(20, row(2), 690)(20, row(2)), { position: 2 });
  assert.equal(spec.grab(200, row(2), 690), null);
});

test("circle: sixteen positions of a turn have nine heights, and the point tells all apart", () => {
  const { points, period, lookalikes } = computed("circle", { position: 6 });
  assert.equal(period, 16);
  const turn = points.slice(0, 16);
  const different = (of) => new Set(turn.map((point) => of(point).map((value) => Math.round(value * 1e9) + 0).join())).size;
  assert.deepEqual([different(({ sin }) => [sin]), different(({ sin, cos }) => [sin, cos])], [9, 16]);
  assert.equal(lookalikes.find(({ view }) => view === "sine").at, 2);
  for (const name of ["sin", "cos"]) assert.ok(Math.abs(points[16][name] - points[0][name]) < 1e-12);
});

test("circle: the tip is turned round, against the clock, and the cosine shows once told", () => {
  const [before, after] = pictures("circle", { position: 6 });
  assert.deepEqual(around(after.spec, [160, 160], 110, 0, -0.25), { position: 10 });
  assert.deepEqual(around(after.spec, [160, 160], 110, 0, 0.25), { position: 2 });
  assert.equal(before.texts.length < after.texts.length, true);
  assert.ok(!before.texts.some((text) => /cosine|positions/.test(text)));
  assert.ok(after.texts.includes("positions 6 and 2 have the same height"));
  // What is said of each position is so of all that are drawn.
  const { points } = computed("circle");
  for (let n = 0; n < 32; n += 1) {
    const [, { texts }] = pictures("circle", { position: n });
    const alike = points.map((_, at) => at).filter((at) => at !== n && Math.abs(points[at].sin - points[n].sin) < 1e-9);
    const twin = texts.join().match(/positions \d+ and (\d+) have the same height/)?.[1];
    if (twin) assert.ok(alike.includes(Number(twin)), `${n} and ${twin}`);
    else {
      assert.ok(texts.includes(`in its turn, position ${n} is alone at its height`), `${n}: ${texts}`);
      assert.ok(alike.every((at) => Math.abs(at - n) === 16), `${n} has the height of ${alike}`);
    }
  }
  assert.doesNotMatch(chapters.circle.formula({ told: false, pair: 3 }).flat().join(), /cos/);
});
