// Panels inside lessons: each opens with settings that the page knows, on what the lesson is about.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parse, settle } from "../../posenc/explorer/core/settings.js";
import { PANELS } from "../../posenc/explorer/panels/index.js";
import { STORY } from "../../posenc/explorer/story/index.js";
import { fixture } from "./close.mjs";

const PREFERRED = { lang: "en", theme: "light" };
const opened = Object.fromEntries(
  fixture("lessons").map(({ lesson, hash }) => [lesson, parse(hash, PANELS, PREFERRED)]),
);
const settled = (lesson) => {
  const { settings } = opened[lesson];
  const shown = ({ id }) => id === settings.panel;
  return settle(PANELS.find(shown), settings, settings.story ? STORY.find(shown) : null);
};

test("most lessons open, and some of them a chapter", () => {
  const told = Object.values(opened).filter(({ settings }) => settings.story);
  assert.ok(told.length >= 10, told.length);
});

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
