/**
 * Colours of the page: Okabe and Ito's, which colour-blind people can tell apart, per theme; and a red
 * for what training never showed, which is never told by its colour alone.
 */
export const THEMES = {
  light: {
    ink: "#1b1f24",
    muted: "#59636e",
    grid: "#e1e4e8",
    paper: "#ffffff",
    a: "#0072b2",
    b: "#d55e00",
    c: "#00855f",
    d2: "#b65a8e",
    accent: "#a87000",
    good: "#00704f",
    bad: "#b3360b",
    more: ["#6a3fb5", "#7a4a1e", "#6b7a00", "#b0183b", "#1f3f99", "#00798c", "#8a2f8f"],
    unseen: "#c4003e",
  },
  dark: {
    ink: "#e8eaed",
    muted: "#a3acb8",
    grid: "#333a43",
    paper: "#15181d",
    a: "#56b4e9",
    b: "#ff8f4f",
    c: "#2fc79b",
    d2: "#e59cc6",
    accent: "#f0d442",
    good: "#38c99d",
    bad: "#ff8a66",
    more: ["#b79bff", "#c99a6b", "#b9cc4a", "#ff7f9f", "#8fa8ff", "#5fd0e0", "#e08fe6"],
    unseen: "#ff5c7c",
  },
};

const ORDER = ["a", "b", "c", "d2", "accent"];
const DASHES = [null, [8, 4], [2, 3], [10, 3, 2, 3]];

/** A colour for each of a dozen things that have their names beside them. */
export const tint = (index, colors) => colors[ORDER[index]] ?? colors.more[index - ORDER.length];

/** Colour and dash of series number `index`: what it asks for, else the next that is free. */
export function seriesStyle(series, index, colors) {
  const color = series.color ?? ORDER[index % ORDER.length];
  const dash = DASHES[Math.floor(index / ORDER.length) % DASHES.length];
  return {
    color: colors[color] ?? color,
    dash: series.dash ?? (series.color ? null : dash),
    width: series.width ?? 1.75,
  };
}

const STOPS = {
  diverging: {
    light: ["#00436b", "#0072b2", "#7fb6d9", "#f5f5f4", "#efa070", "#d55e00", "#7d3500"],
    dark: ["#b5e3ff", "#56b4e9", "#2a5f80", "#20242a", "#8a4a22", "#f08a4a", "#ffd2b0"],
  },
  // Cividis reads the same with and without colour vision.
  sequential: {
    light: ["#fdea45", "#d3c164", "#a59c74", "#7d7c78", "#575d6d", "#233e6c", "#00204d"],
    dark: ["#00204d", "#233e6c", "#575d6d", "#7d7c78", "#a59c74", "#d3c164", "#fdea45"],
  },
};

/** The 256 colours of a palette as packed pixels, and as CSS by `css(share)`. */
export function ramp(palette, theme) {
  const stops = STOPS[palette][theme].map(channels);
  const pixels = new Uint32Array(256);
  for (let i = 0; i < 256; i += 1) pixels[i] = packed(between(stops, i / 255));
  return { pixels, css: (share) => `rgb(${between(stops, share).map(Math.round).join(",")})` };
}

/** Colours of classes 0, 1, 2, ..., packed and as CSS. */
export function classColors(colors) {
  const css = [colors.grid, ...ORDER.map((name) => colors[name]), colors.muted, colors.ink];
  return { css, pixels: Uint32Array.from(css, (color) => packed(channels(color))) };
}

function channels(color) {
  return [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16));
}

// Canvas pixels are bytes in the order red, green, blue, alpha: on every machine with browsers the
// lowest byte of a word comes first.
function packed([red, green, blue]) {
  return (
    ((255 << 24) | (Math.round(blue) << 16) | (Math.round(green) << 8) | Math.round(red)) >>> 0
  );
}

function between(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  return stops[low].map((from, i) => from + (stops[low + 1][i] - from) * (place - low));
}
