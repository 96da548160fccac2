// How much the scores of a query grow with its position p.

const growths = {
  log_n: (p, { original_length: length }) => Math.max(1, Math.log(p + 1) / Math.log(length)),
  yarn: (_, { factor, strength = 0.1 }) => (strength * Math.log(factor) + 1) ** 2,
  llama4: (p, { original_length: length = 8192, strength = 0.1 }) =>
    1 + strength * Math.log1p(Math.floor((p + 1) / length)),
  ministral: (p, { original_length: length = 16384, strength = 0.1 }) =>
    1 + strength * Math.log1p(Math.floor(p / length)),
  inkling: (p, { original_length: length, strength = 0.1 }) =>
    1 + strength * Math.log(Math.max(1, (p + 1) / length)),
};

/** kind "log_n" (https://kexue.fm/archives/8823), "yarn", "llama4", "ministral" or "inkling". */
export function growth(position, kind, settings) {
  return growths[kind](position, settings);
}
