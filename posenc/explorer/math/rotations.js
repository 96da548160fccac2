// Rotary encodings by name. between(m, n, head): the angles of a query at m against a key at n.
import * as axial from "#math/axial.js";
import { inverseFrequencies } from "#math/frequencies.js";
import * as learnedRotary from "#math/learned_rotary.js";
import * as lmInfinite from "#math/lm_infinite.js";
import { memo } from "#math/memo.js";
import * as mrope from "#math/mrope.js";
import * as rerope from "#math/rerope.js";
import { angles } from "#math/rotary.js";
import * as scaling from "#math/scaling.js";
import * as selfExtend from "#math/self_extend.js";
import * as sinks from "#math/sinks.js";
import * as xpos from "#math/xpos.js";

// Pairs that turn by position times frequency.
const turning = (inverse, layout = "half", gain = 1) => ({
  inverse,
  layout,
  gain,
  angles: (position) => angles(position, inverse),
  between: (m, n) => angles(m - n, inverse),
});

// The same, where another distance than m - n counts, so that no position has angles of its own.
const counting = (inverse, layout, counted) => ({
  ...turning(inverse, layout),
  angles: null,
  between: (m, n) => angles(counted(m, n), inverse),
  causalOnly: true,
});

// Pairs that turn by places with several coordinates.
export const placed = (angles, layout, gain = 1) => ({
  layout,
  gain,
  angles,
  between: (m, n, head = 0) => {
    const key = angles(n, head);
    return angles(m, head).map((angle, i) => angle - key[i]);
  },
});

// The first turned dimension, which may be counted from the end, and how many turn.
const turnedPart = ({ dim, rotary_dim, start = 0 }) => {
  const first = start < 0 ? dim + start : start;
  return { start: first, turned: rotary_dim ?? dim - first };
};

const scaled = (settings, length) => {
  const { base = 10_000, scaling: rule } = settings;
  const { turned: d, start } = turnedPart(settings);
  return { ...scaling.frequencies(rule?.name ?? "none", { d, base, length, ...rule }), start };
};

const rotary = (settings, _, length) => {
  const { inverse, gain, start } = scaled(settings, length);
  return { ...turning(inverse, settings.layout, gain), start };
};

export const rotations = {
  rotary,

  xpos: ({ dim, scale_base = 512, base = 10_000, layout, gamma = 0.4 }) => {
    const rates = xpos.rates(dim, scale_base, gamma);
    const size = (m, n) => xpos.fading(m - n, rates);
    return { ...turning(inverseFrequencies(dim, base), layout), size, causalOnly: true };
  },

  rerope: ({ dim, window, leak = null, base = 10_000, layout }) =>
    counting(inverseFrequencies(dim, base), layout, (m, n) => rerope.counted(m - n, window, leak)),

  self_extend: ({ dim, window, group, base = 10_000, layout }) =>
    counting(inverseFrequencies(dim, base), layout, (m, n) =>
      selfExtend.counted(m, n, window, group),
    ),

  lm_infinite: ({ dim, window, sinks = 10, base = 10_000, layout }) => ({
    ...counting(inverseFrequencies(dim, base), layout, (m, n) => lmInfinite.counted(m - n, window)),
    rule: { window, sinks },
  }),

  axial: ({ dim, grid, base = 10_000, layout, frequencies = null, radians = 1 }) => {
    const own = frequencies === null ? axial.frequencies(dim, grid.length, base) : frequencies;
    const inverse = Float64Array.from(own, (w) => radians * w);
    return placed((p) => axial.angles(axial.coordinates(p, grid), inverse), layout);
  },

  mrope: (settings, _, length) => {
    const { sections, interleaved = false, layout = "half" } = settings;
    const owner = mrope.axisOfPair(sections, interleaved);
    const { inverse, gain, start } = scaled(settings, length);
    const angles = (p) => mrope.angles(sections.map(() => p), inverse, owner);
    return { ...placed(angles, layout, gain), start };
  },

  learned_rotary: (settings, deal) => {
    const { heads = null, base = 10_000, layout } = settings;
    const { turned, start } = turnedPart(settings);
    const trained = deal(heads ?? 1, turned / 2) ?? learnedRotary.initial(turned, base);
    const of = memo((head) => {
      const at = trained.length === turned / 2 ? 0 : (head * turned) / 2;
      return learnedRotary.frequencies(trained.slice(at, at + turned / 2));
    });
    return {
      ...turning(of(0), layout),
      start,
      heads,
      angles: (position, head = 0) => angles(position, of(head)),
      between: (m, n, head = 0) => angles(m - n, of(head)),
    };
  },

  sinks: ({ count = 4, window = null, rotary: inner = null }) => {
    if (inner === null) return { rule: { sinks: count } };
    const { inverse, layout } = rotary(inner);
    const counted = (m, n) => sinks.counted(m, n, count, window);
    return { ...counting(inverse, layout, counted), rule: { window, sinks: count } };
  },

  window: ({ width }) => ({ rule: { window: width } }),
};
