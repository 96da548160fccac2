// What the page draws of each encoding, by name, as `mathml` reads it: p is a vector that is added, x one
// that is turned into y; m is the position of a query, n that of a key, i a pair of dimensions, h a head. Each takes its constructor's settings.
import { catalogue } from "#math/catalogue.js";

const FREQUENCY = "w_i = base^{-2i/d}";
const LAYOUTS = { interleaved: ["2i", "2i+1"], half: ["i", "i+d/2"] };

const waves = (layout, sine, cosine) => {
  const [first, second] = LAYOUTS[layout];
  return [`p_{n,${first}} = ${sine}`, `p_{n,${second}} = ${cosine}`];
};
const turned = (layout, angle) => {
  const [first, second] = LAYOUTS[layout];
  return [
    `y_{n,${first}} = x_{${first}} cos(${angle}) - x_{${second}} sin(${angle})`,
    `y_{n,${second}} = x_{${first}} sin(${angle}) + x_{${second}} cos(${angle})`,
  ];
};
const scored = (more = "") => [`score_{m,n} = {q_m · k_n}/{√d} ${more}`];
const counted = (...distance) => ["score_{m,n} = {q_m · R_{-δ} k_n}/{√d}", ...distance];
// The slopes of other numbers of heads are those of two such rows.
const isPowerOfTwo = (n) => Number.isInteger(Math.log2(n));

export const ENCODINGS = {
  none: () => scored(),
  ordinal: () => ["p_n = n"],
  binary: () => ["p_{n,i} = ⌊n / 2^i⌋ mod 2"],
  sinusoidal: ({ layout }) => [...waves(layout, "sin(n w_i)", "cos(n w_i)"), FREQUENCY],
  waveform: ({ wave }) => [
    ...waves("interleaved", `${wave}(n w_i / 2 π)`, `${wave}(n w_i / 2 π + 1/4)`),
    FREQUENCY,
  ],
  learned: () => ["p_n = table_n"],
  recurrent: () => ["p_{n+1} = tanh(W p_n + b)"],
  floater: () => ["{d p}/{d t} = h(t, p)", "p_n = p(n δ)"],
  rotary: ({ layout }) => [...turned(layout, "n w_i"), FREQUENCY],
  learned_rotary: () => [...turned("half", "n w_i"), "w_{i,start} = base^{-2i/d}"],
  xpos: () => [
    "score_{m,n} = {1}/{√d} ∑_i ζ_i^{(m-n)/512} q_{m,i} · R_{(n-m)w_i} k_{n,i}",
    "ζ_i = {2i/d + 0.4}/{1.4}",
    FREQUENCY,
  ],
  rerope: ({ window }) => counted(`δ = min(m - n, ${window})`),
  self_extend: ({ window, group }) =>
    counted(
      `δ = m - n if m - n < ${window}`,
      `δ = ⌊m / ${group}⌋ + ${window - Math.floor(window / group)} - ⌊n / ${group}⌋ if m - n ≥ ${window}`,
    ),
  lm_infinite: ({ window }) =>
    counted(`δ = min(m - n, ${window})`, `sees(m, n) ⇔ m - n < ${window} ∨ n < 10`),
  axial: ({ grid: [, width] }) => [
    ...turned("half", "a_i"),
    `a_i = ⌊n / ${width}⌋ w_i if i < d/4`,
    `a_i = (n mod ${width}) w_{i-d/4} if i ≥ d/4`,
    "w_i = base^{-4i/d}",
  ],
  mrope: () => [...turned("half", "n_{axis(i)} w_i"), FREQUENCY],
  alibi: ({ heads }) => [
    ...scored("- slope_h |m - n|"),
    ...(isPowerOfTwo(heads) ? [`slope_h = 2^{-8h/${heads}}`] : []),
  ],
  t5: () => scored("+ b_{h, bucket(n-m)}"),
  kerple: () => scored("- r_{1,h} ln(1 + r_{2,h} |m - n|)"),
  sandwich: ({ heads }) => [
    ...scored("+ {p_m · p_n - d/2}/{8 h / " + heads + "}"),
    "p_m · p_n = ∑_i cos(w_i (m - n))",
    FREQUENCY,
  ],
  fire: () => [
    ...scored("+ f_h(x)"),
    "x = {ψ(|m - n|)}/{ψ(max(L, m))}",
    "ψ(x) = ln(|c x| + 1)",
  ],
  shaw: ({ clip }) => [
    "score_{m,n} = {q_m · (k_n + a_{clip(n-m)})}/{√d}",
    `clip(x) = max(-${clip}, min(${clip}, x))`,
  ],
  transformer_xl: () => ["score_{m,n} = {(q_m + u) · k_n + (q_m + v) · W r_{m-n}}/{√d}"],
  deberta: () => ["score_{m,n} = {q_m · k_n + q_m · K_{row(m-n)} + k_n · Q_{row(m-n)}}/{√(3d)}"],
  cope: () => [...scored("+ q_m · e(c_{m,n})"), "c_{m,n} = ∑_{t=n}^m σ(q_m · k_t / √d)"],
  forget_gate: () => [...scored("+ ∑_{t=n+1}^m ln f_t"), "f_t = σ(w_h · x_t + b_h)"],
  window: ({ width }) => [...scored(), `sees(m, n) ⇔ |m - n| < ${width}`],
  sinks: ({ count }) => [...scored(), `n < ${count} ⇒ sees(m, n)`],
  temperature: ({ original_length: length }) => [
    `score_{m,n} = max(1, {ln(m + 1)}/{ln ${length}}) {q_m · k_n}/{√d}`,
  ],
};

/** The formula of an encoding as the page's settings make it, after its name; [] of a stranger. */
export function encodingFormula(name, s) {
  const { label, settings } = catalogue[name];
  const lines = ENCODINGS[name]?.(settings(s)) ?? [];
  return lines.length ? [`"${label[s.lang]}:"`, ...lines] : [];
}
