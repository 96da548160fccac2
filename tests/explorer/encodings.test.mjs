// Every example of every encoding against posenc: scores, embeddings, lowered angles and biases.
import assert from "node:assert/strict";
import { test } from "node:test";
import { catalogue, build } from "../../posenc/explorer/math/catalogue.js";
import { entries } from "../../posenc/explorer/math/tables.js";
import { embed, row } from "../../posenc/explorer/math/equation.js";
import { dealer, fixed } from "../../posenc/explorer/math/fixed.js";
import { close, fixture } from "./close.mjs";

const { names, length, query, scale, examples } = fixture("encodings");

test("the page has every encoding of posenc", () => {
  const written = Object.keys(catalogue).filter((name) => !(name in entries));
  assert.deepEqual(written.sort(), names);
  assert.deepEqual([...new Set(examples.map(({ name }) => name))].sort(), names);
  for (const { name, kind, family } of examples) {
    assert.equal(catalogue[name].kind, kind);
    assert.equal(catalogue[name].family, name === "sinks" ? "mask" : family);
  }
});

// What DeBERTa reads of its layer: row @ W[head].
function layerOf({ heads, dim, width }) {
  const project = (start) => (head) => (row) => {
    const weight = fixed(heads * dim * width, start).subarray(head * dim * width);
    return Float64Array.from({ length: width }, (_, i) =>
      row.reduce((sum, x, c) => sum + x * weight[c * width + i], 0),
    );
  };
  return { projectQ: project(40_000), projectK: project(60_000) };
}

for (const example of examples) {
  const { name, settings } = example;
  test(`${name} ${JSON.stringify(settings)}`, () => {
    const layer = example.layer ? layerOf(example.layer) : null;
    const encoding = build(name, settings, dealer(), length, layer);
    if (example.embedded) {
      const x = fixed(example.width, 30_000);
      example.positions.forEach((position, i) => {
        close(embed(encoding, x, position), example.embedded[i], `position ${position}`);
      });
      return;
    }
    const { heads, dim, causal } = example;
    const inputs = example.inputs
      ? Array.from({ length }, (_, n) => fixed(example.inputs, 80_000 + n * example.inputs))
      : undefined;
    [0, heads - 1].forEach((head, at) => {
      const q = fixed(dim, 10_000 + head * dim);
      const keys = Array.from({ length }, (_, n) => fixed(dim, 20_000 + (head * length + n) * dim));
      const found = row(encoding, { q, keys, query, head, scale, causal, inputs });
      close(found, example.scores[at], `scores of head ${head}`);
      if (example.angles) {
        close(encoding.angles(query, head), example.angles[at], `angles of head ${head}`);
        close([encoding.gain], [example.gain], "gain");
      }
      if (example.bias) {
        const bias = encoding.bias ?? encoding.inside;
        const biases = keys.map((_, n) => bias(n - query, head, query));
        close(biases, example.bias[at], `bias of head ${head}`);
      }
    });
  });
}
