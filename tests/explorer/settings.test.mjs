import assert from "node:assert/strict";
import { test } from "node:test";

import { clamped, limits, read, stops, write } from "../../posenc/explorer/core/controls.js";
import { csv } from "../../posenc/explorer/core/csv.js";
import { elsewhere } from "../../posenc/explorer/core/elsewhere.js";
import { GLOBALS } from "../../posenc/explorer/core/globals.js";
import { areCounts, logTicks, padded, short, ticks } from "../../posenc/explorer/core/numbers.js";
import { Recorder, escape } from "../../posenc/explorer/core/recorder.js";
import { hash, parse, settle } from "../../posenc/explorer/core/settings.js";
import { TEXT, speaker } from "../../posenc/explorer/core/text.js";
import { catalogue } from "../../posenc/explorer/math/catalogue.js";
import { PANELS } from "../../posenc/explorer/panels/index.js";

const PREFERRED = { lang: "en", theme: "light" };
const parsed = (text) => parse(text, PANELS, PREFERRED);
const KINDS = ["range", "select", "toggle", "text", "button", "sketch"];
const SHARED = [...GLOBALS.map(({ id }) => id), "lang", "theme", "panel", "embed", "at", "told", "guess"];

test("what a hash holds comes back", () => {
  const { settings, problems } = parsed(
    "#panel=circle&lang=zh&theme=dark&d=128&base=500&a=t5&circle.pair=3",
  );
  assert.deepEqual(problems, []);
  assert.equal(settings.panel, "circle");
  const again = parsed(hash(settings, PANELS, PREFERRED)).settings;
  assert.deepEqual(again, settings);
  const s = settle(
    PANELS.find(({ id }) => id === "circle"),
    settings,
  );
  assert.deepEqual([s.d, s.base, s.a, s.pair, s.lang, s.theme], [128, 500, "t5", 3, "zh", "dark"]);
});

test("a language may have its country", () => {
  for (const [text, lang] of [["zh-CN", "zh"], ["zh-Hans-SG", "zh"], ["ZH_tw", "zh"], ["en-GB", "en"]]) {
    const { settings, problems } = parse(`#lang=${text}`, PANELS, { lang: "en", theme: "light" });
    assert.deepEqual([settings.lang, problems], [lang, []], text);
  }
});

test("an empty hash is the defaults, and the defaults are an empty hash", () => {
  for (const text of ["", "#", "#&&&"]) {
    const { settings, problems } = parsed(text);
    assert.deepEqual(problems, []);
    assert.equal(hash(settings, PANELS, PREFERRED), `#${PANELS[0].id}`);
  }
});

test("a name alone is a chapter of the story, and panel= the panel in the workshop", () => {
  for (const [text, story] of [["#rotation", true], ["#panel=rotation", false]]) {
    const { settings, problems } = parsed(`${text}&at=12`);
    assert.deepEqual([settings.panel, settings.story, settings.at, problems], ["rotation", story, 12, []]);
    assert.equal(hash(settings, PANELS, PREFERRED), `${text}&at=12`);
  }
});

test("one position is lit in every panel that has one, as far as it reaches", () => {
  const lit = PANELS.filter(({ light }) => light);
  for (const panel of lit) {
    const s = (hash) => settle(panel, parsed(hash).settings)[panel.light];
    assert.equal(s("#at=3"), 3, panel.id);
    assert.equal(s("#at=9000"), limits(panel.controls.find(({ id }) => id === panel.light), settle(panel, parsed("").settings)).max, panel.id);
  }
  assert.ok(lit.length > 1);
});

test("a hostile hash gives messages and usable settings, and never throws", () => {
  const hostile = {
    "#d=abc": "bad_value",
    "#d=": "bad_value",
    "#d=1e999": "bad_value",
    "#d=-4": "bad_value",
    "#d=63": "bad_value",
    "#d=NaN": "bad_value",
    "#d=0x40": "bad_value",
    "#length=99999999999999999999": "bad_value",
    "#base=Infinity": "bad_value",
    "#panel=<script>alert(1)</script>": "bad_value",
    "#panel=__proto__": "bad_value",
    "#lang=fr": "bad_value",
    "#lang=zhuang": "bad_value",
    "#theme=%00": "bad_value",
    "#a=constructor": "bad_value",
    "#permutation.with=__proto__": "bad_value",
    "#permutation.with=yes": "bad_value",
    "#circle.pair=9999": "bad_value",
    "#__proto__=1": "unknown_setting",
    "#__proto__.polluted=1": "unknown_setting",
    "#circle.__proto__=1": "unknown_setting",
    "#nothing": "unknown_setting",
    "#d=%E0%A4%A": "bad_escape",
    "#at=-1": "bad_value",
    "#at=2.5": "bad_value",
    "#at=1e9": "bad_value",
    "#at=__proto__": "bad_value",
    [`#permutation.words=${"a".repeat(30_000)}`]: "bad_value",
    [`#${"x=1&".repeat(5000)}`]: "unknown_setting",
  };
  for (const [text, key] of Object.entries(hostile)) {
    const { settings, problems } = parsed(text);
    assert.ok(problems.length > 0, text.slice(0, 60));
    assert.equal(problems[0].key, key, text.slice(0, 60));
    for (const lang of ["en", "zh"]) {
      const message = speaker(lang)(problems[0].key, problems[0].values);
      assert.ok(!/\{\w+\}/.test(message.replace(/\{given\}/, "")), message);
      assert.ok(message.length < 600, message);
    }
    for (const panel of PANELS) {
      const s = settle(panel, settings);
      for (const control of [...GLOBALS, ...panel.controls]) {
        const value = s[control.id];
        assert.equal(
          control.kind === "range" && !Number.isFinite(value),
          false,
          `${text} ${control.id}`,
        );
      }
    }
  }
  assert.equal({}.polluted, undefined);
});

test("every panel keeps the contract", () => {
  for (const panel of PANELS) {
    assert.match(panel.lesson, /^learn\/\w+$/);
    assert.equal(new Set(panel.controls.map(({ id }) => id)).size, panel.controls.length);
    for (const control of panel.controls) {
      assert.ok(KINDS.includes(control.kind), `${panel.id}.${control.id}`);
      assert.ok(
        !SHARED.includes(control.id),
        `${panel.id}.${control.id} is a shared setting's name`,
      );
      const s = settle(panel, parsed("").settings);
      assert.deepEqual(
        read(control, write(control, control.value), s),
        s[control.id],
        `${panel.id}.${control.id}`,
      );
      assert.deepEqual(
        clamped(control, control.value, s),
        control.value,
        `${panel.id}.${control.id} begins outside its limits`,
      );
    }
  }
});

test("each panel asks one question and answers it in one sentence", () => {
  for (const { id, text } of PANELS) {
    for (const [lang, { question, answer }] of Object.entries(text)) {
      assert.equal(question.match(/[?？]/g)?.length, 1, `${id} ${lang}: ${question}`);
      const ends = lang === "zh" ? /[。！？]/g : /[.!?](?=\s|$)/g;
      assert.equal(answer.match(ends)?.length, 1, `${id} ${lang}: ${answer}`);
    }
  }
});

test("both languages say the same things, in words of their own", () => {
  const both = [["page", TEXT], ...PANELS.map((panel) => [panel.id, panel.text])];
  for (const [id, text] of both) {
    assert.deepEqual(Object.keys(text.zh).sort(), Object.keys(text.en).sort(), id);
    for (const [key, english] of Object.entries(text.en)) {
      const names = (line) => (line.match(/\{\w+\}/g) ?? []).sort();
      assert.deepEqual(
        [...new Set(names(text.zh[key]))],
        [...new Set(names(english))],
        `${id}.${key}`,
      );
      assert.ok(
        !/[\u3400-\u9fff]/.test(english) || key === "other_language" || key.endsWith("_hint"),
        `${id}.${key}: ${english}`,
      );
    }
    const chinese = (line) => /[\u3400-\u9fff]/.test(line);
    for (const key of ["title", "question", "answer"]) {
      if (id !== "page") assert.ok(chinese(text.zh[key]), `${id}.${key}`);
    }
  }
  for (const panel of PANELS) {
    const s = settle(panel, parsed("").settings);
    for (const key of ["title", "question", "answer"])
      assert.ok(panel.text.en[key], `${panel.id}.${key}`);
    for (const control of panel.controls) {
      assert.ok(panel.text.en[control.id], `${panel.id}.${control.id} has no label`);
      const options =
        typeof control.options === "function" ? control.options(s) : (control.options ?? []);
      for (const option of options.map(String)) {
        assert.ok(
          /^[\d.]+$/.test(option) || panel.text.en[option],
          `${panel.id}.${control.id}: ${option} has no label`,
        );
      }
    }
  }
  for (const [name, { label }] of Object.entries(catalogue)) assert.ok(label.en && label.zh, name);
});

test("labels have no signs too small to read", () => {
  for (const { id, text } of [{ id: "page", text: TEXT }, ...PANELS])
    for (const [key, line] of Object.values(text).flatMap(Object.entries))
      assert.ok(!/[\u1d62-\u1d6a\u2080-\u209c]/.test(line), `${id}.${key}: ${line}`);
});

test("the front page leads to the docs, where there are any", () => {
  assert.deepEqual(elsewhere("../{page}.html", "zh"), [
    ["docs", "../zh/index.html"],
    ["install", "../zh/start/index.html"],
  ]);
  assert.deepEqual(elsewhere("", "en"), []);
});

test("sliders of large ranges stop at round values", () => {
  const s = {};
  for (const control of GLOBALS.filter(({ kind }) => kind === "range")) {
    const places = stops(control, s);
    assert.ok(places.includes(control.value), control.id);
    assert.deepEqual(
      places,
      [...new Set(places)].sort((a, b) => a - b),
      control.id,
    );
    assert.deepEqual(
      places.map((place) => clamped(control, place, s)),
      places,
      control.id,
    );
  }
  const log = stops({ kind: "range", min: 0.01, max: 1000, step: 0.01, scale: "log" }, s);
  assert.deepEqual([log[0], log.at(-1)], [0.01, 1000]);
});

test("numbers read well", () => {
  const cases = [
    [0, "0"],
    [128, "128"],
    [0.1 + 0.2, "0.3"],
    [1234.567, "1235"],
    [1e-7, "1e-7"],
    [12_345_678, "1.235e7"],
  ];
  for (const [value, text] of [
    ...cases,
    [NaN, "-"],
    [-Infinity, "-∞"],
    [-0.5, "-0.5"],
    [1_048_576, "1048576"],
  ]) {
    assert.equal(short(value), text);
  }
  assert.deepEqual(ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(ticks(0, 3, 10, true), [0, 1, 2, 3]);
  assert.deepEqual(logTicks(1, 1000), [1, 10, 100, 1000]);
  assert.deepEqual([padded(0, 100), padded(50, 50), padded(-50, -50)], [[-6, 106], [0, 53], [-53, 0]]);
  assert.deepEqual([areCounts([[1, null, 3], [NaN]]), areCounts([[1], [2.5]])], [true, false]);
});

test("CSV survives what words may hold", () => {
  const text = csv({
    head: ["a", "b"],
    rows: [
      ["x,y", 'say "no"'],
      ["=1+1", -2.5],
      ["词", null],
    ],
  });
  assert.equal(text, '\ufeffa,b\r\n"x,y","say ""no"""\r\n\'=1+1,-2.5\r\n词,\r\n');
});

test("the recorder writes what a canvas would draw", () => {
  const recorder = new Recorder();
  recorder.translate(10, 20);
  recorder.scale(2, 2);
  recorder.lineWidth = 3;
  recorder.strokeStyle = "#123456";
  recorder.beginPath();
  recorder.moveTo(0, 0);
  recorder.lineTo(5, 5);
  recorder.stroke();
  assert.match(recorder.markup, /d="M10 20L20 30".*stroke="#123456" stroke-width="6"/);
  recorder.fillText("a < b & c\u0001", 1, 2);
  assert.match(recorder.markup, />a &lt; b &amp; c<\/text>/);
  assert.equal(escape('"'), "&quot;");
});
