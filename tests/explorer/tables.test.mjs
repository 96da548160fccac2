// Encodings without JavaScript: what their tables tell, and what they refuse.
import assert from "node:assert/strict";
import { test } from "node:test";
import { catalogue, make } from "../../posenc/explorer/math/catalogue.js";
import { entries } from "../../posenc/explorer/math/tables.js";
import { vectors } from "../../posenc/explorer/math/vectors.js";
import { panel as distance } from "../../posenc/explorer/panels/distance.js";
import { panel as permutation } from "../../posenc/explorer/panels/permutation.js";
import { message } from "./message.mjs";
import { settingsFor } from "./page.mjs";

test("strangers are in the catalogue, by English names where there are no Chinese ones", () => {
  for (const name of ["stairs", "drill", "rungs", "reader"]) {
    assert.ok(name in entries);
    assert.deepEqual(catalogue[name].label, { en: name, zh: name });
  }
  assert.deepEqual(
    ["stairs", "drill", "rungs", "reader"].map((name) => [catalogue[name].family, catalogue[name].exact]),
    [["bias", true], ["rotary", true], ["absolute", true], ["content", false]],
  );
});

test("beyond its reach a table has no numbers", () => {
  const s = settingsFor(distance, { length: 300 });
  assert.equal(vectors(make("stairs", s), 300, 16).rows, 96);
  assert.equal(vectors(make("rungs", s), 300, 16).rows, 96);
  const { a } = distance.compute({ ...s, a: "drill", length: 300 });
  assert.ok(Number.isFinite(a.mean[95]));
  assert.equal(a.mean[96], null);
  assert.ok(Number.isNaN(make("stairs", s).bias(-96, 0)));
});

test("a head is one of the table's own", () => {
  const { a } = distance.compute(settingsFor(distance, { a: "stairs", head: 3, drop: false }));
  const { a: last } = distance.compute(settingsFor(distance, { a: "stairs", head: 1, drop: false }));
  assert.deepEqual(a.mean, last.mean);
});

test("a table of equal tokens is no table of others", () => {
  for (const vectors of ["equal", "free"]) message(distance, { a: "reader", vectors }, "only_alike");
  message(permutation, { a: "reader", with: true }, "only_alike");
  message(permutation, { a: "drill", with: true, causal: false }, "causal_only");
});
