/** Who sees whom by the rule of the masks panel, and how many tokens one hears after L layers. */
export function maskFormula({ rule, causal, convention, sinks }) {
  const past = causal ? ["j ≤ i"] : [];
  switch (rule) {
    case "window":
      return windowFormula(causal, convention === "besides", sinks);
    case "chunk":
      return [sees("⌊i / w⌋ = ⌊j / w⌋", ...past), "reach(L) = reach(1)"];
    case "prefix":
      return [sees("j ≤ i ∨ j < prefix"), "reach(L) = reach(1)"];
    default:
      return [sees(...past), "reach(L) = reach(1)"];
  }
}

const sees = (...conditions) => `sees(i, j) ⇔ ${conditions.join(" ∧ ") || "⊤"}`;

function windowFormula(causal, besides, sinks) {
  const near = `${causal ? "i - j" : "|i - j|"} ${besides ? "≤" : "<"} w`;
  if (sinks) return [sees(`(${near} ∨ j < ${sinks})`, ...(causal ? ["j ≤ i"] : []))];
  if (!causal) return [sees(near)];
  return [sees(`0 ≤ ${near}`), besides ? "reach(L) = L w + 1" : "reach(L) = L (w - 1) + 1"];
}
