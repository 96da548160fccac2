// Chapters of the story: what each has, what it says in both languages, and that nothing is told too early.
import assert from "node:assert/strict";
import { test } from "node:test";
import { GLOBALS } from "../../posenc/explorer/core/globals.js";
import { mathml } from "../../posenc/explorer/core/mathml.js";
import { parse, settle } from "../../posenc/explorer/core/settings.js";
import { wordIn } from "../../posenc/explorer/formulas/words.js";
import { PANELS } from "../../posenc/explorer/panels/index.js";
import { STORY } from "../../posenc/explorer/story/index.js";
import { COLORS, begun, drawn, picture } from "./chapters.mjs";
import { painted } from "./painted.mjs";

const TEXTS = ["title", "lead", "question", "answer", "fails", "leads"];
const STANDARD = ["sin", "cos", "tanh", "ln", "max", "min", "mod", "Attn", "PE", "Pr"];

test("a chapter is a panel's, with controls of that panel and values for others", () => {
  for (const { id, panel, controls, byHand = [], holds = {}, options = {} } of STORY) {
    assert.equal(id, panel.id);
    assert.ok(PANELS.includes(panel), id);
    const known = panel.controls.map((control) => control.id);
    for (const control of [...controls, ...byHand]) assert.ok(known.includes(control), `${id}.${control}`);
    assert.ok(controls.length <= 3, `${id} has more controls than a picture bears`);
    for (const name of Object.keys(holds)) {
      assert.ok(!controls.includes(name), `${id}: ${name} can be chosen, and is held`);
      assert.ok([...known, ...GLOBALS.map((each) => each.id)].includes(name), `${id}.${name}`);
    }
    for (const [name, offered] of Object.entries(options)) {
      const all = panel.controls.find((control) => control.id === name).options;
      assert.deepEqual(offered.filter((option) => !all.includes(option)), [], `${id}.${name}`);
    }
  }
});

test("each chapter asks, answers, fails and leads on, in both languages", () => {
  for (const chapter of STORY) {
    const { id, panel, predict, text } = chapter;
    const words = [...TEXTS, ...(predict.options ?? [])];
    for (const key of words) {
      const [en, zh] = ["en", "zh"].map((lang) => text[lang][key] ?? panel.text[lang][key]);
      assert.ok(en && zh, `${id}.${key}`);
      assert.ok(!/[\u3400-\u9fff]/.test(en), `${id}.${key}: ${en}`);
      if (TEXTS.includes(key)) assert.match(zh, /[\u3400-\u9fff]/, `${id}.${key}`);
    }
    assert.deepEqual(Object.keys(text.zh).sort(), Object.keys(text.en).sort(), id);
    for (const lang of ["en", "zh"])
      assert.equal((text[lang].question ?? panel.text[lang].question).match(/[?？]/g)?.length, 1, `${id} ${lang}`);
  }
});

test("a prediction has a right answer among its options, or is drawn", () => {
  for (const chapter of STORY) {
    const { id, predict } = chapter;
    if (predict.sketch) {
      assert.ok(predict.sketch >= 8, id);
      assert.deepEqual(Object.keys(chapter.edges), ["top", "middle", "bottom", "left", "right"], id);
    } else assert.ok(predict.options.length > 1 && predict.options.includes(predict.right(begun(chapter))), id);
  }
});

test("a chapter draws before and after its answer, wide and narrow, in both languages", () => {
  for (const chapter of STORY) {
    for (const lang of ["en", "zh"]) {
      for (const width of [690, 364]) {
        const s = begun(chapter, lang);
        const guess = chapter.predict.sketch ? Array(chapter.predict.sketch).fill(0.5) : chapter.predict.options[0];
        const before = drawn(chapter, { ...s, told: false }, width);
        const after = drawn(chapter, { ...s, told: true, guess }, width);
        for (const found of [before, after]) assert.ok(found.length > 0, chapter.id);
        const said = JSON.stringify([before, after].flat(), (_, value) => (typeof value === "function" ? undefined : value));
        assert.ok(!/undefined|\{\w+\}/.test(said), `${chapter.id} ${lang}: ${said.match(/.{30}(undefined|\{\w+\})/)?.[0]}`);
      }
    }
  }
});

test("no words of a picture run over its edge, before or after the answer", () => {
  for (const chapter of STORY)
    for (const lang of ["en", "zh"])
      for (const width of [690, 364])
        for (const told of [false, true]) {
          const { markup } = painted(chapter.id, { ...begun(chapter, lang), told }, width);
          for (const [, matrix, x, size, anchor, text] of markup.matchAll(/<text transform="matrix\(([^)]*)\)" x="([-\d.]+)" y="[^"]*" font-size="(\d+)".*?text-anchor="(\w+)"[^>]*>([^<]*)</g)) {
            if (!matrix.startsWith("1 ")) continue;
            const wide = [...text].reduce((sum, sign) => sum + size * (sign > "\u2e7f" ? 1 : 0.55), 0);
            const from = Number(x) - wide * { start: 0, middle: 0.5, end: 1 }[anchor];
            assert.ok(from > -6 && from + wide < width + 6, `${chapter.id} ${lang} ${width}: ${text} from ${from} to ${from + wide}`);
          }
        }
});

test("what the reader drew is marked as such, in a colour of its own", () => {
  for (const chapter of STORY.filter(({ predict }) => predict.sketch)) {
    for (const [lang, yours] of [["en", "yours"], ["zh", "你画的"]]) {
      const lines = (guess) => {
        const { markup, texts } = picture(chapter, { ...begun(chapter, lang), told: true, guess });
        const dashed = markup.split("\n").filter((line) => line.includes(`stroke="${COLORS.b}"`) && line.includes("stroke-dasharray"));
        return [dashed.length, texts.filter((text) => text === yours).length];
      };
      assert.deepEqual(lines(Array(chapter.predict.sketch).fill(0.2)), [1, 1], chapter.id);
      assert.deepEqual(lines("shown"), [0, 0], chapter.id);
    }
  }
});

test("what the workshop was set to changes no chapter, but for what the chapter offers", () => {
  const others = { range: "2", select: null, toggle: "1", text: "a b", button: "1", sketch: null };
  for (const chapter of STORY) {
    const offers = [...chapter.controls, ...(chapter.byHand ?? []), chapter.panel.light];
    const set = chapter.panel.controls
      .filter(({ id, kind }) => !offers.includes(id) && others[kind])
      .map(({ id, kind }) => `${chapter.id}.${id}=${others[kind]}`);
    const hash = ["#d=16", "base=50", "length=9", "heads=2", "trained=5", "a=t5", ...set].join("&");
    assert.deepEqual(begun(chapter, "en", hash), begun(chapter), chapter.id);
  }
});

test("a chapter begins where its question is, and never at the end of what it shows", () => {
  const at = (chapter, hash, follows) => {
    const { settings } = parse(hash, PANELS, { lang: "en", theme: "light" });
    return settle(chapter.panel, settings, chapter, follows)[chapter.panel.light];
  };
  for (const chapter of STORY.filter(({ panel }) => panel.light)) {
    const own = chapter.predict.at ?? 7;
    for (const hash of ["", "#at=16000"]) assert.equal(at(chapter, hash, true), own, chapter.id);
    assert.equal(at(chapter, "#at=3", true), 3, chapter.id);
    if ("at" in chapter.predict) assert.equal(at(chapter, "#at=3", false), own, chapter.id);
  }
});

test("what an answer is shown by is among what its chapter offers", () => {
  for (const { id, panel, controls, byHand = [], predict } of STORY) {
    const offered = [...controls, ...byHand, panel.light];
    assert.deepEqual(Object.keys(predict.tells ?? {}).filter((name) => !offered.includes(name)), [], id);
  }
  const number = STORY.find(({ id }) => id === "number");
  assert.ok(number.panel.compute({ ...begun(number), ...number.predict.tells }).angle < 1);
});

test("what a picture lets one do by hand moves what its chapter offers", () => {
  for (const chapter of STORY) {
    const s = { ...begun(chapter), told: true };
    const known = [...chapter.controls, ...(chapter.byHand ?? []), chapter.panel.light];
    for (const { spec } of drawn(chapter, s, 690)) {
      if (typeof spec !== "object") continue;
      for (const name of Object.values(spec.steps ?? {})) assert.ok(known.includes(name), `${chapter.id}: ${name}`);
      if (!spec.grab) continue;
      const taken = [];
      for (let y = 2; y < spec.height; y += 4)
        for (let x = 2; x < 690; x += 4) {
          const follow = spec.grab(x, y, 690);
          if (follow) taken.push(Object.keys(follow(x, y)));
        }
      assert.ok(taken.length > 0, `${chapter.id}: there is nothing to take`);
      for (const name of new Set(taken.flat())) assert.ok(known.includes(name), `${chapter.id}: ${name}`);
    }
  }
});

test("formulas of chapters are MathML in both languages, before and after the answer", () => {
  for (const chapter of STORY) {
    const formula = chapter.formula ?? chapter.panel.formula;
    for (const told of [false, true]) {
      const s = { ...begun(chapter), told };
      const rows = typeof formula === "function" ? formula(s, chapter.panel.compute(s)) : formula;
      for (const line of rows.flat()) {
        assert.ok(!/undefined|NaN|null/.test(mathml(line, wordIn("en"))), `${chapter.id}: ${line}`);
        const names = [...mathml(line, wordIn("zh")).matchAll(/<m[io][^>]*>([A-Za-z]{2,})</g)].map(([, name]) => name);
        assert.deepEqual(names.filter((name) => !STANDARD.includes(name)), [], `${chapter.id}: ${line}`);
      }
    }
  }
});

test("a letter of formulas means one thing in all chapters", () => {
  // Shares of attention, vectors of positions, queries and keys, radians per token; no other letter for those.
  const chapters = {
    a: ["permutation", "bias"],
    p: ["number", "clock", "circle", "waves", "distance"],
    q: ["rotation", "bias"],
    k: ["rotation", "bias"],
    θ: ["waves", "distance", "beyond", "stretching"],
    w: [], f: [], δ: [],
  };
  const found = Object.fromEntries(Object.keys(chapters).map((letter) => [letter, []]));
  for (const chapter of STORY) {
    const s = { ...begun(chapter), told: true };
    const formula = chapter.formula ?? chapter.panel.formula;
    const rows = typeof formula === "function" ? formula(s, chapter.panel.compute(s)) : formula;
    const text = rows.flat().join(" ").replace(/#(accent|a|b)\b/g, "");
    for (const letter of new Set(text.match(/(?<!\p{L})\p{L}(?!\p{L})/gu))) found[letter]?.push(chapter.id);
  }
  assert.deepEqual(found, chapters);
});

test("moving q and k by one stretch of text moves both by the same number, within the text", () => {
  const rotation = STORY.find(({ id }) => id === "rotation");
  const s = { ...begun(rotation, "en", "#at=12"), told: true };
  const [{ spec }] = drawn(rotation, s, 690);
  const y = spec.height - 52;
  const middle = 22 + ((690 - 44) * (s.m + s.n)) / 2 / 31;
  const follow = spec.grab(middle, y, 690);
  for (const to of [middle + 60, middle - 90, 5000, -5000]) {
    const { m, n } = follow(to, y);
    assert.equal(m - n, s.m - s.n);
    assert.ok(Math.min(m, n) >= 0 && Math.max(m, n) <= 31);
  }
  assert.deepEqual(follow(5000, y), { m: 31, n: 24 });
});

test("neighbours can both be taken: the query above the text, the key below it", () => {
  const rotation = STORY.find(({ id }) => id === "rotation");
  for (const width of [690, 364])
    for (const n of [12, 13]) {
      const s = { ...begun(rotation), m: 12, n, told: true };
      const { spec, texts } = picture(rotation, s, width);
      const [x, y] = [22 + ((width - 44) * 12.5) / 31, spec.height - 52];
      assert.deepEqual(Object.keys(spec.grab(x, y - 15, width)(x, y)), ["m"]);
      assert.deepEqual(Object.keys(spec.grab(x, y + 15, width)(x, y)), ["n"]);
      const { score, pairProduct } = rotation.panel.compute(s);
      for (const value of [score, pairProduct / 8]) assert.ok(texts.includes(value.toFixed(4).replace("-", "−")), String(texts));
    }
});

test("no text names a panel by a number, and only chapters name chapters by theirs", () => {
  const numbers = [[STORY, /\bpanel \d|面板 ?\d/], [PANELS, /\b(panel|chapter) \d|面板 ?\d|第 ?\d+ ?章/]];
  for (const [shown, number] of numbers)
    for (const { id, text } of shown)
      for (const said of [...Object.values(text.en), ...Object.values(text.zh)]) assert.ok(!number.test(said), `${id}: ${said}`);
});
