import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

/** A fixture by its name. */
export function fixture(name) {
  return JSON.parse(readFileSync(new URL(`fixtures/${name}.json`, import.meta.url), "utf8"));
}

/** Every number within 1e-9, relative to values above 1; null is minus infinity, "inf" infinity. */
export function close(found, expected, what, tolerance = 1e-9) {
  assert.equal(found.length, expected.length, `${what}: how many`);
  let [worst, at] = [0, -1];
  for (let i = 0; i < expected.length; i++) {
    const error = difference(found[i], expected[i]);
    if (!(error <= worst)) [worst, at] = [error, i];
  }
  assert.ok(worst <= tolerance, `${what}: off by ${worst} at ${at}: ${found[at]}, not ${expected[at]}`);
}

function difference(found, expected) {
  if (expected === "inf") return found === Infinity ? 0 : Infinity;
  if (expected === null) return found === null || found === -Infinity ? 0 : Infinity;
  if (found === null || Number.isNaN(found)) return Infinity;
  return Math.abs(found - expected) / Math.max(1, Math.abs(expected));
}
