const TERMS = {
  token_token: "{q_i · k_j}⏟{token, token}",
  token_position: "{q_i · r_{j-i}}⏟{token, position}",
  position_token: "{s_{j-i} · k_j}⏟{position, token}",
  position_position: "{b_{j-i}}⏟{position, position}",
};

/** The score of query i and key j as the sum of those parts that an encoding has. */
export const partsFormula = (names) => [[`score_{i,j} = ${names.map((name) => TERMS[name]).join(" + ")}`]];
