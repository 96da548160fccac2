// Trained tables as posenc sees them.
import assert from "node:assert/strict";
import { test } from "node:test";
import data from "../../posenc/explorer/data/trained.js";
import { panel as trained } from "../../posenc/explorer/panels/trained.js";
import { close, fixture } from "./close.mjs";
import { settingsFor } from "./page.mjs";

for (const { settings, ...expected } of fixture("trained")) {
  test(`trained ${settings.table} after ${settings.steps} steps`, () => {
    const found = trained.compute(settingsFor(trained, settings));
    close(found.norms, expected.norms, "sizes");
    close(found.cosines[settings.position], expected.cosines, "cosines");
    close(found.shares, expected.shares, "shares");
    found.paths.forEach((path, i) => close(path, expected.paths[i], `direction ${i}`));
  });
}

test("rows that training never read stay as they began", () => {
  const [before, after] = ["0", String(data.steps.at(-1))].map((steps) => trained.compute(settingsFor(trained, { table: "learned", steps })));
  const change = (n) => Math.hypot(...before.rows[n].map((x, j) => x - after.rows[n][j]));
  const changes = before.rows.map((_, n) => change(n));
  const unread = Math.max(...changes.slice(96));
  // One byte per number rounds the same row differently in two tables.
  assert.ok(unread < 0.2 * Math.min(...changes.slice(0, 96)), `${unread}`);
});
