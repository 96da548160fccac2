// Waves of period 1 and amplitude 1, in phase with the sine, as functions of turns.

// As Python's turns % 1, so that jumps fall on the same side.
const part = (turns) => {
  const left = turns % 1;
  return left < 0 ? left + 1 : left;
};

export const waves = {
  sine: (turns) => Math.sin(2 * Math.PI * part(turns)),
  triangle: (turns) => 1 - 4 * Math.abs(part(turns + 0.25) - 0.5),
  square: (turns) => (part(turns) >= 0.5 ? -1 : 1),
  sawtooth: (turns) => 2 * part(turns) - (part(turns) >= 0.5 ? 2 : 0),
};

/**
 * Turns per token of each of d columns. pairing "quadrature", "single" or "mismatched";
 * frequencies "geometric", "one", or radians per token of each pair or column.
 */
export function turnsPerToken(d, { pairing = "quadrature", frequencies = "geometric", base }) {
  const paired = pairing === "quadrature";
  return Float64Array.from({ length: d }, (_, j) => {
    let radians = 1;
    if (frequencies === "geometric") radians = base ** (-(paired ? j - (j % 2) : j) / d);
    else if (frequencies !== "one") radians = frequencies[paired ? Math.floor(j / 2) : j];
    return radians / (2 * Math.PI);
  });
}

/** The vector of one position; every second column is a quarter turn ahead, but for "single". */
export function vector(position, turns, wave, pairing = "quadrature") {
  const shift = pairing === "single" ? 0 : 0.25;
  return turns.map((turn, j) => wave(position * turn + (j % 2) * shift));
}
