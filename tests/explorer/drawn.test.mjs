// What panels put on their stage: names in legends, and what is said beside the pictures.
import assert from "node:assert/strict";
import { test } from "node:test";
import { speaker } from "../../posenc/explorer/core/text.js";
import { panel as masks } from "../../posenc/explorer/panels/masks.js";
import { panel as precision } from "../../posenc/explorer/panels/precision.js";
import { settingsFor } from "./page.mjs";

/** The curves that a panel draws at these settings, by their names. */
function curvesOf(panel, changes) {
  const found = {};
  const stage = new Proxy({}, {
    get: (_, kind) => (name, spec) => {
      if (kind === "curves") found[name] = spec;
    },
  });
  const s = settingsFor(panel, changes);
  panel.draw(stage, panel.compute(s), s, speaker(s.lang, panel));
  return found;
}

test("a pair without an error says in the legend why it has no curve", () => {
  const { by_position } = curvesOf(precision, { dtype: "float32", what: "angles", reach: 64 });
  for (const { label, y } of by_position.series)
    assert.equal(y.every((value) => value === null), label.includes("exact"), label);
  assert.match(by_position.series[0].label, /^pair 0: exact/);
});

test("the curve by formula is named by the formula of the convention chosen", () => {
  const named = (convention) => curvesOf(masks, { convention }).reach.series.map(({ label }) => label);
  assert.deepEqual(named("included"), ["counted", "L (w - 1) + 1"]);
  assert.deepEqual(named("besides"), ["counted", "L w + 1"]);
});
