// Curves that would fill the picture: when they become bands, and that the band holds the curve.
import assert from "node:assert/strict";
import { test } from "node:test";

import { band } from "../../posenc/explorer/core/band.js";

const FRAME = { width: 600, height: 200 };
const xs = Array.from({ length: 4096 }, (_, i) => i);
const x = (value) => (value / 4095) * FRAME.width;
const y = (value) => (1 - value) * 100;
const wave = (length) => xs.map((n) => Math.sin((2 * Math.PI * n) / length));

test("a slow wave is a line, a fast one a band", () => {
  for (const length of [4096, 1000, 200]) assert.equal(band(xs, wave(length), x, y, FRAME), null);
  for (const length of [6.28, 10, 40]) assert.ok(band(xs, wave(length), x, y, FRAME));
  assert.equal(band([], [], x, y, FRAME), null);
  assert.equal(band(xs, xs.map(() => null), x, y, FRAME), null);
  assert.equal(band(xs, xs.map((n) => n % 2), x, (value) => 100 * Math.log10(value), FRAME), null);
});

test("a band goes from the lowest to the highest value, over all of the curve", () => {
  // It swings twice as far at its end, and has a hole.
  const ys = wave(9.7).map((value, n) => (n % 100 === 50 ? null : value * (0.5 + n / 8190)));
  const outline = band(xs, ys, x, y, FRAME);
  const top = outline.slice(0, outline.length / 2);
  const bottom = outline.slice(outline.length / 2).reverse();
  assert.equal(top[0][0], 0);
  assert.equal(top.at(-1)[0], FRAME.width);
  for (const [i, [at, high]] of top.slice(0, -1).entries()) {
    const inside = xs.filter((n) => x(n) >= at && x(n) < top[i + 1][0] && ys[n] !== null);
    assert.ok(inside.every((n) => y(ys[n]) >= high - 1e-9 || i >= top.length - 2));
    assert.ok(inside.every((n) => y(ys[n]) <= bottom[i][1] + 1e-9 || i >= top.length - 2));
    const size = 0.5 + at / FRAME.width / 2;
    assert.ok(Math.abs((bottom[i][1] - high) / 200 - size) < 0.04, `${at}: ${high}`);
  }
});
