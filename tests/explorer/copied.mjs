// What "copy as Python" gives in every panel, as JSON; panels.json holds what it computes.
import { catalogue } from "../../posenc/explorer/math/catalogue.js";
import { PANELS } from "../../posenc/explorer/panels/index.js";
import { settingsFor } from "./page.mjs";

const names = Object.keys(catalogue);
// The others are shown by a table for equal tokens alone.
const exact = names.filter((name) => catalogue[name].exact !== false);
const each = (values, of) => values.flatMap(of);
const layouts = ["half", "interleaved"];
const kinds = ["alibi", "t5", "kerple", "sandwich", "fire", "shaw", "transformer_xl", "deberta"];
const roundings = each(["bfloat16", "float16", "float32"], (dtype) =>
  each(["positions", "frequencies", "angles", "table"], (what) => ({ dtype, what })),
);
const scalings = ["none", "linear", "ntk", "dynamic_ntk", "yarn", "llama3", "longrope", "rerope"];

// The changes to the settings under which a panel is compared.
const cases = {
  permutation: [{}, { causal: true }, ...exact.map((a) => ({ a, with: true, causal: true }))],
  number: [{ position: 7 }, { position: 998 }, { tokens: 50, position: 30, divided: true }],
  binary: [{}, { count: 8, position: 127 }],
  circle: [{}, { pair: 5, position: 20 }, { speeds: "digits", pair: 3, position: 6 }],
  clock: each(["binary", "sine", "triangle", "square", "sawtooth"], (wave) =>
    each(["digits", "geometric"], (speeds) => ({ wave, speeds, position: 13, count: 5 })),
  ),
  waves: each(names, (a) => ({ a, count: 8 })),
  distance: [
    ...names.map((a) => ({ a, head: 3, summed: 3 })),
    ...exact.map((a) => ({ a, head: 3, vectors: "equal", draws: 3, drop: false })),
    ...["sinusoidal", "rotary", "deberta", "cope"].map((a) => ({ a, vectors: "free", draws: 2 })),
  ],
  rotation: each(layouts, (layout) =>
    ["same", "other", "mixed"].map((turned) => ({ layout, turned, m: 12, n: 5, pair: 2 })),
  ),
  bias: each(kinds, (kind) => [
    { kind, head: 2, tokens: 20, query: 11 },
    { kind, head: 1, tokens: 20, query: 11, causal: true, token_token: true, log_buckets: true, span: 30 },
  ]),
  masks: [
    {},
    { rule: "window", width: 3, convention: "besides", sinks: 2, tokens: 20, query: 19 },
    { rule: "window", causal: false, tokens: 20, query: 9, layers: 3 },
    { rule: "chunk", causal: false, tokens: 20, query: 9, layers: 3 },
    { rule: "prefix", tokens: 20, query: 3, layers: 2 },
    { rule: "everything", tokens: 20, query: 7, layers: 2 },
  ],
  beyond: [{}, { read: 64, head: 0 }, { read: 512, head: 1 }, { read: 129, none: false, t5: false }],
  stretching: [
    ...scalings.map((method) => ({ method, trained: 64, factor: 3, base: 10_000 })),
    { method: "yarn", trained: 4096, factor: 8, beta_slow: 2, beta_fast: 20, base: 500_000, d: 64 },
    { method: "config" },
  ],
  precision: each(roundings, (rounding) => [
    { ...rounding, base: 10_000, reach: 300 },
    { ...rounding, base: 500_000, d: 32, reach: 70_000 },
  ]),
  own_wave: [
    {},
    { source: "drawn" },
    { expression: "sawtooth(t) / 2", pairing: "single" },
    { expression: "triangle(t)", frequencies: "one" },
    { expression: "square(t)^2 - cos(2*pi*t)", pairing: "mismatched" },
  ],
  trained: [{}, { table: "floater", centred: false, position: 7 }],
};

/** Every case as { panel, settings, python }. */
export function copied() {
  return PANELS.flatMap((panel) =>
    cases[panel.id].map((settings) => {
      const python = panel.python(settingsFor(panel, settings));
      return { panel: panel.id, settings, python };
    }),
  );
}

if (process.argv[1] === import.meta.filename) console.log(JSON.stringify(copied()));
