// Formulas of panels: that they are MathML, follow the settings, and speak the page's language.
import assert from "node:assert/strict";
import { test } from "node:test";
import { limits } from "../../posenc/explorer/core/controls.js";
import { mathml } from "../../posenc/explorer/core/mathml.js";
import { ENCODINGS } from "../../posenc/explorer/formulas/encodings.js";
import { wordIn } from "../../posenc/explorer/formulas/words.js";
import { catalogue } from "../../posenc/explorer/math/catalogue.js";
import { hasTable } from "../../posenc/explorer/math/tables.js";
import { PANELS } from "../../posenc/explorer/panels/index.js";
import { settingsFor } from "./page.mjs";

const byId = Object.fromEntries(PANELS.map((panel) => [panel.id, panel]));
// Names that Chinese texts have in Latin letters, too.
const STANDARD = ["sin", "cos", "tanh", "ln", "max", "min", "mod", "Attn", "PE", "Pr"];

function rowsOf(panel, changes = {}) {
  const s = settingsFor(panel, changes);
  return typeof panel.formula === "function" ? panel.formula(s, panel.compute(s)) : panel.formula;
}
const linesOf = (id, changes) => rowsOf(byId[id], changes).flat();

/** Every panel at every option of every choice, and every encoding where two are chosen. */
function* everywhere() {
  for (const panel of PANELS) {
    const s = settingsFor(panel);
    const choices = panel.controls.filter(({ kind }) => ["select", "toggle"].includes(kind));
    const options = (control) => (control.kind === "toggle" ? [true, false] : limits(control, s).options);
    for (const control of choices)
      for (const option of options(control)) yield [panel, { [control.id]: option }];
    if (panel.id === "waves") for (const a of Object.keys(catalogue)) yield [panel, { a }];
  }
}

/** A tag that is not closed, or closed too early; null where there is none. */
function unbalanced(markup) {
  const open = [];
  for (const [, slash, tag] of markup.matchAll(/<(\/?)(\w+)[^>]*?(?<!\/)>/g)) {
    if (!slash) open.push(tag);
    else if (open.pop() !== tag) return tag;
  }
  return open.length ? open.join() : null;
}

test("every formula is MathML whose brackets do not grow, in every state of its panel", () => {
  for (const [panel, changes] of everywhere()) {
    const where = `${panel.id} ${JSON.stringify(changes)}`;
    const lines = rowsOf(panel, changes).flat();
    if (!hasTable(changes.a)) assert.ok(lines.length, where);
    for (const line of lines) {
      const markup = mathml(line, wordIn("en"));
      assert.ok(markup.startsWith('<math display="block">'), where);
      assert.equal(unbalanced(markup), null, `${where}: ${line}`);
      assert.ok(!/undefined|NaN|null/.test(markup), `${where}: ${line}`);
      assert.ok(!/<mo>[()[\]{}⌊⌋|]/.test(markup), `${where}: ${line}`);
    }
  }
});

test("in Chinese no name of a formula is an English word", () => {
  for (const [panel, changes] of everywhere()) {
    for (const line of rowsOf(panel, changes).flat()) {
      const markup = mathml(line, wordIn("zh"));
      const names = [...markup.matchAll(/<m[io][^>]*>([A-Za-z]{2,})</g)].map(([, name]) => name);
      assert.deepEqual(names.filter((name) => !STANDARD.includes(name)), [], `${panel.id}: ${line}`);
    }
  }
});

test("the notation", () => {
  const of = (text) => mathml(text, (name) => name.toUpperCase()).replace(/<\/?math[^>]*>/g, "");
  assert.equal(of("a_i"), "<msub><mi>a</mi><mi>i</mi></msub>");
  assert.equal(of("a_i^2"), "<msubsup><mi>a</mi><mi>i</mi><mn>2</mn></msubsup>");
  assert.equal(of("{1}/{base}"), "<mfrac><mn>1</mn><mi>BASE</mi></mfrac>");
  assert.equal(of("∑_i x"), "<mrow><munder><mo>∑</mo><mi>i</mi></munder><mi>x</mi></mrow>");
  assert.equal(of("{a}⏟{b}"), '<munder><mrow class="named"><mi>a</mi></mrow><mi>b</mi></munder>');
  const space = (width) => `<mspace width="${width}em"/>`;
  assert.equal(of('"<b>" < 5'), `<mrow><mtext>&lt;b&gt;</mtext>${space(0.5)}<mo>&lt;</mo><mn>5</mn></mrow>`);
  assert.equal(of("2 ln d"), `<mrow><mn>2</mn>${space(0.2)}<mi>LN</mi>${space(0.2)}<mi>d</mi></mrow>`);
  assert.equal(of("2 a b"), "<mrow><mn>2</mn><mi>a</mi><mi>b</mi></mrow>");
});

test("waves: the formula is that of A and of B, in the layout chosen", () => {
  const named = Object.keys(catalogue).filter((name) => !hasTable(name));
  assert.deepEqual(Object.keys(ENCODINGS).sort(), named.sort());
  const [a, b] = rowsOf(byId.waves, { a: "sinusoidal", b: "alibi" });
  assert.match(a[1], /p_\{n,2i\} = sin\(n w_i\)/);
  assert.match(b[1], /slope_h \|m - n\|/);
  const half = rowsOf(byId.waves, { a: "rotary", b: "rotary", layout: "half" });
  assert.equal(half.length, 1);
  assert.match(half[0][1], /y_\{n,i\} = x_\{i\} cos\(n w_i\) - x_\{i\+d\/2\} sin\(n w_i\)/);
});

test("masks: the formula is the rule, and reach is promised where it holds", () => {
  const sees = (changes) => linesOf("masks", changes);
  const reach = "reach(L) = L (w - 1) + 1";
  assert.deepEqual(sees({}), ["sees(i, j) ⇔ 0 ≤ i - j < w", reach]);
  assert.deepEqual(sees({ convention: "besides" }), ["sees(i, j) ⇔ 0 ≤ i - j ≤ w", "reach(L) = L w + 1"]);
  assert.deepEqual(sees({ causal: false }), ["sees(i, j) ⇔ |i - j| < w"]);
  assert.deepEqual(sees({ sinks: 3 }), ["sees(i, j) ⇔ (i - j < w ∨ j < 3) ∧ j ≤ i"]);
  assert.deepEqual(sees({ rule: "chunk" }), ["sees(i, j) ⇔ ⌊i / w⌋ = ⌊j / w⌋ ∧ j ≤ i", "reach(L) = reach(1)"]);
  for (const rule of ["everything", "chunk", "prefix"])
    for (const causal of [true, false]) {
      const { reach } = byId.masks.compute(settingsFor(byId.masks, { rule, causal, query: 9 }));
      assert.deepEqual(reach, reach.map(() => reach[0]), rule);
    }
});

test("stretching: the formula is the method's, and that of a config.json", () => {
  const last = (changes) => rowsOf(byId.stretching, changes).at(-1);
  assert.deepEqual(last({ method: "none" }), ["h_i = θ_i"]);
  assert.deepEqual(last({ method: "linear" }), ["h_i = {θ_i}/{factor}"]);
  assert.match(last({ method: "yarn" })[0], /share_i/);
  assert.match(last({ method: "yarn" })[1], /^share_i = /);
  assert.match(last({ method: "config" })[2], /^turns_i = /);
  const s = settingsFor(byId.stretching, { method: "config", config: "{" });
  assert.deepEqual(byId.stretching.formula(s, null).length, 1);
});

test("precision: the formula rounds what is rounded, to the format chosen", () => {
  const lines = (changes) => linesOf("precision", changes);
  assert.match(lines({ what: "angles", dtype: "float32" })[0], /\|round\(n w_i\) - n w_i\|/);
  assert.match(lines({ what: "angles", dtype: "float32" })[1], /2\^\{-24\} \|x\|/);
  assert.match(lines({ what: "angles", dtype: "float32" })[2], /float32/);
  assert.match(lines({ what: "frequencies" })[0], /n round\(w_i\)/);
  assert.match(lines({ what: "table" })[0], /round\(cos\(n w_i\)\)/);
});

test("permutation: the two sides are equal where no output changes", () => {
  assert.match(linesOf("permutation", {})[0], / = /);
  assert.match(linesOf("permutation", { causal: true })[0], / ≠ /);
  assert.match(linesOf("permutation", { with: true })[0], / ≠ /);
});

test("bias: the formula has the parts that the encoding has", () => {
  assert.equal(linesOf("bias", { kind: "alibi" })[0].match(/⏟/g).length, 2);
  assert.equal(linesOf("bias", { kind: "transformer_xl" })[0].match(/⏟/g).length, 4);
});
