import assert from "node:assert/strict";
import { UserError } from "../../posenc/explorer/core/errors.js";
import { speaker } from "../../posenc/explorer/core/text.js";
import { settingsFor } from "./page.mjs";

/** Settings that a panel refuses, with a text of this key in both languages. */
export function message(panel, changes, key) {
  let found;
  try {
    panel.compute(settingsFor(panel, changes));
  } catch (error) {
    found = error;
  }
  assert.ok(found instanceof UserError, `${JSON.stringify(changes).slice(0, 200)}: ${found}`);
  assert.equal(found.key, key, JSON.stringify(changes).slice(0, 200));
  for (const lang of ["en", "zh"]) {
    const text = speaker(lang, panel)(found.key, found.values);
    assert.ok(!/\{\w+\}/.test(text) && text.length < 300, text);
    assert.notEqual(text, found.key);
  }
}
