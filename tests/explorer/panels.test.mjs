// What panels show, against what the Python that they give to copy computes with posenc.
import assert from "node:assert/strict";
import { test } from "node:test";
import { PANELS } from "../../posenc/explorer/panels/index.js";
import { close, fixture } from "./close.mjs";
import { copied } from "./copied.mjs";
import { settingsFor } from "./page.mjs";

const cases = fixture("panels");
const byId = Object.fromEntries(PANELS.map((panel) => [panel.id, panel]));
const flat = ({ values, columns }, rows) =>
  rows.flatMap((at) => Array.from(values.slice(at * columns, (at + 1) * columns)));

// What is compared of each panel, out of what it computes, by the names of panels.py.
const shown = {
  permutation: ({ change, before }) => ({ change, last: before.at(-1) }),
  number: ({ rows, angle, without, step }) => ({ rows: rows.flat(), angle: [angle], without: [without], step: [step] }),
  binary: ({ rows, apart, flips }) => ({ rows: rows.flat(), apart, flips }),
  circle: ({ points, position }) => ({ point: [points[position].cos, points[position].sin] }),
  clock: (data, s) => ({
    row: data.rows[s.position % 64],
    hands: data.hands,
    digit_step: [data.digitSteps[s.position % 64]],
    hand_step: [data.handStep],
  }),
  waves: ({ a }) => ({ shape: [a.rows, a.columns], rows: flat(a, [0, 1, 5, 10, 23]) }),
  distance: ({ a, pairs }) => ({ ...a, part: pairs?.mean ?? [] }),
  rotation: ({ both, alone, grid }) => ({
    both,
    alone,
    cells: [grid[31], grid[31 * 32], grid[7 * 32 + 19], grid[20 * 32 + 20]],
  }),
  bias: ({ row, attention, effective, distances, query }) => ({
    row, attention, effective: [effective], at: distances.map((distance) => query + distance),
  }),
  masks: ({ seen, reach }) => ({ pairs: [seen], reach }),
  beyond: ({ rows, shown, pairs }) => ({
    rows: shown.flatMap((name) => Array.from(rows[name].weights)),
    unseen: shown.flatMap((name) => rows[name].fresh.map(Number)),
    angles: pairs.map(({ reached }) => reached),
    fresh: pairs.map(({ fresh }) => Number(fresh)),
  }),
  stretching: ({ rows, chosen }) => {
    const { wavelengths, once, gain } = rows[chosen];
    return { wavelengths, once: [once], gain: [gain] };
  },
  precision: ({ errors, count, first }) => ({
    worst: errors,
    distinct: [count],
    equal: first === null ? [] : [first],
  }),
  own_wave: ({ rows, mean, checks }) => ({
    rows: [0, 1, 5, 23, 60].flatMap((at) => Array.from(rows[at])),
    mean: mean.slice(0, 24),
    distinct: [checks.distinct],
  }),
  trained: ({ norms, cosines }, s) => ({ sizes: norms, cosines: cosines[s.position] }),
};

test("every panel is compared", () => {
  const named = (each) => each.map(({ panel, settings }) => ({ panel, settings }));
  const stored = named(cases);
  assert.deepEqual(named(copied()), stored, "run python -m tests.explorer.fixtures");
  assert.deepEqual([...new Set(stored.map(({ panel }) => panel))], Object.keys(byId));
});

for (const { panel, settings, expected } of cases) {
  test(`${panel} ${JSON.stringify(settings)}`, () => {
    const s = settingsFor(byId[panel], settings);
    const found = shown[panel](byId[panel].compute(s), s);
    for (const [key, values] of Object.entries(expected)) {
      // The bias panel shows visible keys alone.
      const compared = found.at && key === "row" ? found.at.map((key) => values[key]) : values;
      close(found[key], compared, key);
    }
  });
}

test("every panel writes a table of its own data, and Python", () => {
  for (const panel of PANELS) {
    const s = settingsFor(panel);
    const { head, rows } = panel.table(panel.compute(s), s);
    // A sentence has few words.
    assert.ok(rows.length > (panel.id === "permutation" ? 1 : 8), panel.id);
    for (const row of rows) assert.equal(row.length, head.length, panel.id);
    assert.match(panel.python(s), /import posenc as pe\n/);
  }
});

test("layouts change no inner product", () => {
  const { compute } = byId.waves;
  for (const a of ["sinusoidal", "rotary"]) {
    const { gap } = compute(settingsFor(byId.waves, { a }));
    assert.ok(gap < 1e-12, `${a}: ${gap}`);
  }
  assert.equal(compute(settingsFor(byId.waves, { a: "learned" })).gap, null);
});

test("sinusoids alone do not tell left from right, and a learned table does", () => {
  const { compute } = byId.waves;
  assert.ok(compute(settingsFor(byId.waves, { a: "sinusoidal" })).sides < 1e-12);
  assert.ok(compute(settingsFor(byId.waves, { a: "learned" })).sides > 1e-6);
  assert.equal(compute(settingsFor(byId.waves, { a: "alibi" })).sides, null);
});

test("only turning q and k in two layouts makes scores depend on where the text stands", () => {
  const { compute } = byId.rotation;
  for (const turned of ["same", "other", "mixed"]) {
    const found = compute(settingsFor(byId.rotation, { turned }));
    assert.equal(found.spread < 1e-9, turned !== "mixed");
    assert.equal(Math.abs(found.score - found.trained) < 1e-9, turned === "same");
  }
});

test("the arrows of a rotation keep their lengths, and the angle between them tells the product", () => {
  const s = settingsFor(byId.rotation, { pair: 2, m: 9, n: 4 });
  const { arrows, pairProduct, angle } = byId.rotation.compute(s);
  const [q, k] = [arrows.q.from, arrows.k.from];
  const size = (x) => Math.hypot(...x);
  close([size(arrows.q.to), size(arrows.k.to)], [size(q), size(k)], "lengths");
  const between = Math.atan2(q[1], q[0]) - Math.atan2(k[1], k[0]) + angle;
  close([pairProduct], [size(q) * size(k) * Math.cos(between)], "product");
});
