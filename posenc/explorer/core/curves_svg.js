import { band, trace } from "#core/band.js";
import { areCounts, extent, logTicks, padded, short, ticks } from "#core/numbers.js";
import { seriesStyle } from "#core/palette.js";

const LEFT = 58;
const RIGHT = 16;
const TOP = 12;
const BOTTOM = 44;
const MARK = 15;

/** The same curves on any 2d context: what the SVG export replays. */
export function plotCurves(context, spec, width, height, colors) {
  const top = TOP + MARK * (spec.marks?.length ?? 0);
  const frame = { left: LEFT, top, width: width - LEFT - RIGHT, height: height - top - BOTTOM };
  const x = scale(spec.xRange ?? extent([spec.x]), spec.logX, areCounts([spec.x]), frame.left, frame.width);
  const counts = areCounts(spec.series.map(({ y }) => y));
  const y = scale(spec.yRange ?? yRange(spec), spec.logY, counts, frame.top + frame.height, -frame.height);
  context.font = "12px sans-serif";
  axes(context, spec, frame, x, y, colors);
  marks(context, spec, frame, x, colors);
  spec.series.forEach((series, i) => {
    const style = seriesStyle(series, i, colors);
    context.strokeStyle = context.fillStyle = style.color;
    context.lineWidth = style.width;
    context.setLineDash(style.dash ?? []);
    const outline = series.points ? null : band(spec.x, series.y, x, y, frame);
    if (series.points) dots(context, spec.x, series.y, x, y);
    else if (outline) filled(context, outline);
    else line(context, spec.x, series.y, x, y, frame);
  });
  context.setLineDash([]);
  legend(context, spec, frame, height, colors);
}

const above = (value) => (value > 0 ? value : null);

function yRange(spec) {
  const lists = spec.series.map(({ y }) => (spec.logY ? Array.from(y, above) : y));
  return spec.logY ? extent(lists) : padded(...extent(lists));
}

function scale([low, high], log, whole, start, size) {
  const [from, to] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  const place = (value) =>
    start + (((log ? Math.log10(value) : value) - from) / (to - from || 1)) * size;
  return Object.assign(place, { ticks: log ? logTicks(low, high) : ticks(low, high, 6, whole) });
}

function axes(context, spec, frame, x, y, colors) {
  const [right, bottom] = [frame.left + frame.width, frame.top + frame.height];
  context.strokeStyle = colors.grid;
  context.fillStyle = colors.muted;
  context.lineWidth = 1;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const value of x.ticks) {
    segment(context, x(value), frame.top, x(value), bottom);
    context.fillText(short(value), x(value), bottom + 6);
  }
  context.fillText(spec.xLabel ?? "", frame.left + frame.width / 2, bottom + 24);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const value of y.ticks) {
    segment(context, frame.left, y(value), right, y(value));
    context.fillText(short(value), frame.left - 6, y(value));
  }
  context.save();
  context.translate(12, frame.top + frame.height / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillText(spec.yLabel ?? "", 0, 0);
  context.restore();
}

function marks(context, spec, frame, x, colors) {
  context.strokeStyle = context.fillStyle = colors.muted;
  context.textBaseline = "bottom";
  const all = spec.marks ?? [];
  all.forEach((mark, row) => {
    const at = x(mark.x);
    if (!(at >= frame.left && at <= frame.left + frame.width)) return;
    const foot = frame.top - 2 - MARK * (all.length - 1 - row);
    context.setLineDash([4, 3]);
    segment(context, at, foot, at, frame.top + frame.height);
    const right = at > frame.left + frame.width / 2;
    context.textAlign = right ? "right" : "left";
    context.fillText(mark.label, at + (right ? -4 : 4), foot);
  });
  context.setLineDash([]);
}

function filled(context, outline) {
  context.beginPath();
  trace(context, outline);
  context.stroke();
  context.globalAlpha = 0.35;
  context.fill();
  context.globalAlpha = 1;
}

function line(context, xs, ys, x, y, frame) {
  // More than four points to a pixel add bytes and nothing to see; the ends of each step stay.
  const stride = Math.max(1, Math.floor(xs.length / (frame.width * 4)));
  let down = false;
  context.beginPath();
  for (let i = 0; i < xs.length; i += stride) {
    const [px, py] = [x(xs[i]), ys[i] === null ? Number.NaN : y(ys[i])];
    if (!Number.isFinite(px) || !Number.isFinite(py)) down = false;
    else if (down) context.lineTo(px, py);
    else {
      context.moveTo(px, py);
      down = true;
    }
  }
  context.stroke();
}

function dots(context, xs, ys, x, y) {
  for (let i = 0; i < xs.length; i += 1) {
    if (ys[i] === null || !Number.isFinite(y(ys[i]))) continue;
    context.beginPath();
    context.arc(x(xs[i]), y(ys[i]), 3, 0, 2 * Math.PI);
    context.fill();
  }
}

function legend(context, spec, frame, height, colors) {
  context.textAlign = "left";
  context.textBaseline = "middle";
  spec.series.slice(0, 12).forEach((series, i) => {
    const style = seriesStyle(series, i, colors);
    const [left, top] = [
      frame.left + (i % 3) * (frame.width / 3),
      height + 10 + 22 * Math.floor(i / 3),
    ];
    context.strokeStyle = style.color;
    context.lineWidth = style.width;
    context.setLineDash(style.dash ?? []);
    segment(context, left, top, left + 26, top);
    context.fillStyle = colors.ink;
    context.fillText(series.label ?? "", left + 32, top);
  });
  context.setLineDash([]);
}

function segment(context, x1, y1, x2, y2) {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}
