// What becomes of the frequencies, by method, as `mathml` reads it. Each takes a scaling's settings.

const BLENDED = "h_i = share_i θ_i + (1 - share_i) {θ_i}/{factor}";
const stretched = (growth) => `h_i = (base ${growth}^{d/(d-2)})^{-2i/d}`;

export const SCALINGS = {
  none: () => ["h_i = θ_i"],
  rerope: () => ["h_i = θ_i", "angle_i = h_i min(m - n, trained - 1)"],
  linear: () => ["h_i = {θ_i}/{factor}"],
  ntk: () => [stretched("factor")],
  dynamic_ntk: () => [
    stretched("growth"),
    "growth = factor {max(length, trained)}/{trained} - (factor - 1)",
  ],
  yarn: ({ truncate = true, attentionFactor = null, mscale = null }) => {
    const [down, up] = truncate ? [["⌊", "⌋"], ["⌈", "⌉"]] : [["", ""], ["", ""]];
    return [
      BLENDED,
      "share_i = 1 - min(1, max(0, {i - i_{fast}}/{i_{slow} - i_{fast}}))",
      `i_{fast} = max(0, ${down.join("c(β_{fast})")})`,
      `i_{slow} = min(d - 1, ${up.join("c(β_{slow})")})`,
      "c(β) = {d ln(trained / 2 π β)}/{2 ln base}",
      ...(attentionFactor === null && mscale === null ? ["gain = 0.1 ln factor + 1"] : []),
    ];
  },
  llama3: () => [
    BLENDED,
    "share_i = min(1, max(0, {turns_i - low}/{high - low}))",
    "turns_i = {trained θ_i}/{2 π}",
  ],
  longrope: ({ attentionFactor = null }) => [
    "h_i = {θ_i}/{divisor_i}",
    ...(attentionFactor === null ? ["gain = √(1 + ln factor / ln trained)"] : []),
  ],
  proportional: () => ["h_i = θ_i if i < ⌊fraction d / 2⌋", "h_i = 0 if i ≥ ⌊fraction d / 2⌋"],
};

/** The frequencies of RoPE, and what the methods chosen, or those of a config.json, make of them. */
export function scalingFormula(s, data) {
  const common = ["θ_i = base^{-2i/d}", "λ_i = {2 π}/{h_i}"];
  if (data === null) return [common];
  const chosen = data.config ? data.rows.slice(1) : [data.rows[data.chosen]];
  const rows = new Map(chosen.map(({ name, settings }) => [name, SCALINGS[name](settings)]));
  return [common, ...rows.values()];
}
