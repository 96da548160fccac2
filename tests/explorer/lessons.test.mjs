// Panels inside lessons: each opens with settings that the page knows, on what the lesson is about.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parse, settle } from "../../posenc/explorer/core/settings.js";
import { PANELS } from "../../posenc/explorer/panels/index.js";
import { fixture } from "./close.mjs";

const PREFERRED = { lang: "en", theme: "light" };
const opened = Object.fromEntries(
  fixture("lessons").map(({ lesson, hash }) => [lesson, parse(hash, PANELS, PREFERRED)]),
);
const settled = (lesson) => {
  const { settings } = opened[lesson];
  return settle(PANELS.find(({ id }) => id === settings.panel), settings);
};

test("the page knows all settings of lessons", () => {
  assert.ok(Object.keys(opened).length > 20);
  for (const [lesson, { problems }] of Object.entries(opened)) assert.deepEqual(problems, [], lesson);
});

test("a lesson on one encoding opens on that encoding", () => {
  for (const lesson of ["alibi", "t5", "shaw", "deberta", "transformer_xl"])
    assert.equal(settled(lesson).kind, lesson);
  for (const lesson of ["sinusoids", "base", "multiplicative", "decay"])
    assert.deepEqual([settled(lesson).a, settled(lesson).b], ["sinusoidal", "sinusoidal"], lesson);
  assert.equal(settled("rotary_linear_attention").a, "rotary");
  assert.equal(settled("recursive").table, "floater");
});
