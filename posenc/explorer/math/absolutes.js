// Absolute encodings by name: what `build` of the catalogue makes of their settings. Settings have
// the names of the Python constructors; deal(...shape) gives the parameters one after another.
import { digits } from "#math/binary.js";
import * as floater from "#math/floater.js";
import { row } from "#math/learned.js";
import * as ordinal from "#math/ordinal.js";
import * as recurrent from "#math/recurrent.js";
import * as sinusoidal from "#math/sinusoidal.js";
import * as waveform from "#math/waveform.js";

// Rows made once, up to `reach`.
export const tabulated = (values, dim, reach) => ({
  columns: dim,
  reach,
  vector: (position) => row(values, dim, position),
});

export const absolutes = {
  ordinal: () => ({ columns: 1, vector: ordinal.vector }),

  binary: ({ dim }) => ({ columns: dim, vector: (position) => digits(position, dim) }),

  sinusoidal: ({ dim, base = 10_000, layout = "interleaved", denominator = "paper" }) => {
    const inverse = sinusoidal.frequencies(dim, base, denominator);
    const vector = (position) => sinusoidal.vector(position, inverse, dim, layout);
    return { columns: dim, inverse, layout, vector };
  },

  waveform: ({ dim, wave = "sine", pairing, frequencies, base = 10_000 }) => {
    const turns = waveform.turnsPerToken(dim, { pairing, frequencies, base });
    const shape = waveform.waves[wave];
    return { columns: dim, vector: (position) => waveform.vector(position, turns, shape, pairing) };
  },

  learned: ({ dim, max_length }, deal) => tabulated(deal(max_length, dim), dim, max_length),

  recurrent: ({ dim, max_length }, deal) => {
    const weights = { start: deal(dim), weight: deal(dim, dim), bias: deal(dim) };
    return tabulated(recurrent.table(max_length, weights), dim, max_length);
  },

  floater: ({ dim, max_length, layers = 1, delta = 0.1, steps = 1, activation }, deal) => {
    const start = deal(layers, dim).slice(0, dim);
    const [innerWeight, innerBias] = [deal(dim, dim + 1), deal(dim)];
    const [outerWeight, outerBias] = [deal(dim, dim + 1), deal(dim)];
    const weights = { start, innerWeight, innerBias, outerWeight, outerBias };
    const values = floater.table(max_length, weights, { delta, steps, activation });
    return tabulated(values, dim, max_length);
  },
};
