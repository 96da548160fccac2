/** The wave of a column, by how the columns of the panel's table are paired. */
export function waveFormula({ pairing, frequencies }) {
  const paired = pairing === "quadrature";
  const shift = pairing === "single" ? [] : ["shift_j = (j mod 2) / 4"];
  const geometric = `f_j = base^{-${paired ? "2 ⌊j / 2⌋" : "j"} / d}`;
  return [
    [
      `p_{n,j} = wave({n f_j}/{2 π}${shift.length ? " + shift_j" : ""})`,
      ...shift,
      frequencies === "one" ? "f_j = 1" : geometric,
    ],
  ];
}
