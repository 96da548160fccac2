import { band, trace } from "#core/band.js";
import { plotCurves } from "#core/curves_svg.js";
import { element } from "#core/dom.js";
import { figure } from "#core/figure.js";
import { areCounts, padded, short } from "#core/numbers.js";
import { seriesStyle } from "#core/palette.js";
import uPlot from "#vendor/uplot.js";

const HEIGHT = 280;
const MOST_NAMES = 12;
const MARK = 15;
const FONT = "12px system-ui, sans-serif";
// Nobody counts in halves of a token: where values are whole, so are an axis's marks.
const WHOLE = [0, 1, 2, 3, 4, 5, 6, 7].flatMap((power) => [1, 2, 5].map((n) => n * 10 ** power));

/**
 * Curves over a shared x, drawn by uPlot; see `stage.curves` for what `spec` holds.
 *
 * spec.pick(index) are the changes of controls, { m: 5 }, that choosing a place makes, by pointer or
 * Enter; spec.lit is the index of the place that is lit.
 */
export function curves(page) {
  const shell = figure("curves");
  const legend = element("ul", { class: "legend" });
  shell.frame.insertBefore(legend, shell.readout);
  let plot = null;
  let drawn = "";
  let spec = null;
  let at = null;
  let bands = [];

  const wholeX = () => !spec.logX && areCounts([spec.x]);
  const wholeY = () => !spec.logY && areCounts(spec.series.map(({ y }) => y));
  const styles = () => spec.series.map((series, i) => seriesStyle(series, i, page.colors));

  function options(width, height) {
    const axis = (label, extra) => ({
      label,
      labelFont: FONT,
      font: FONT,
      stroke: page.colors.muted,
      labelSize: 22,
      labelGap: 2,
      grid: { stroke: page.colors.grid, width: 1 },
      ticks: { stroke: page.colors.grid, width: 1 },
      values: (_, splits) => splits.map((value) => (value === null ? "" : short(value))),
      ...extra,
    });
    return {
      width,
      height,
      padding: [10 + MARK * (spec.marks?.length ?? 0), 14, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { size: 7 } },
      scales: {
        x: {
          time: false,
          distr: spec.logX ? 3 : 1,
          range: (_, low, high) => spec.xRange ?? xRange(low, high),
        },
        y: { distr: spec.logY ? 3 : 1, ...(spec.logY && !spec.yRange ? {} : { range: yRange }) },
      },
      axes: [
        axis(spec.xLabel, { size: 34, ...(wholeX() ? { incrs: WHOLE } : {}) }),
        axis(spec.yLabel, {
          ...(wholeY() ? { incrs: WHOLE } : {}),
          size: (_, values) => 18 + 7 * Math.max(2, ...(values ?? [""]).map((v) => v.length)),
        }),
      ],
      series: [
        {},
        ...styles().map((style, i) => ({
          label: spec.series[i].label,
          // Rounded to whole pixels, a straight line wobbles and a wave has kinks.
          pxAlign: 0,
          stroke: style.color,
          width: style.width,
          dash: style.dash ?? undefined,
          ...(spec.series[i].points
            ? {
                paths: () => null,
                points: { show: true, size: 6, fill: style.color, stroke: style.color },
              }
            : { points: { show: false }, paths, fill: translucent(style.color) }),
        })),
      ],
      hooks: { draw: [drawMarks, nameBands, drawLit], setCursor: [(self) => readAt(self.cursor.idx)] },
    };
  }
  /** A line, or where it would fill the picture, the band that it fills. */
  function paths(self, index, from, to) {
    const { bbox, data } = self;
    const ratio = devicePixelRatio;
    // What fills a picture does not depend on how many pixels a screen has.
    const frame = { width: bbox.width / ratio, height: bbox.height / ratio };
    const [x, y] = ["x", "y"].map((scale) => (value) => self.valToPos(value, scale));
    const outline = band(data[0], data[index], x, y, frame);
    bands[index - 1] = outline !== null;
    if (!outline) return { ...line(self, index, from, to), fill: null };
    const path = new Path2D();
    trace(
      path,
      outline.map(([left, top]) => [bbox.left + left * ratio, bbox.top + top * ratio]),
    );
    return { stroke: path, fill: path };
  }
  const xRange = (low, high) => (low === high ? [low - 1, high + 1] : [low, high]);
  function yRange(_, low, high) {
    if (spec.yRange) return spec.yRange;
    if (low === null || high === null) return [0, 1];
    return padded(low, high);
  }
  /** Lines at marked places; their names stand above the plot, where they hide no curve. */
  function drawMarks(self) {
    const { ctx, bbox } = self;
    const ratio = devicePixelRatio;
    const marks = spec.marks ?? [];
    ctx.save();
    ctx.font = `${12 * ratio}px system-ui, sans-serif`;
    ctx.strokeStyle = ctx.fillStyle = page.colors.muted;
    ctx.setLineDash([4 * ratio, 3 * ratio]);
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    const places = marks.map((mark, row) => ({
      ...mark,
      at: self.valToPos(mark.x, "x", true),
      foot: bbox.top - (2 + MARK * (marks.length - 1 - row)) * ratio,
    }));
    const inside = places.filter(({ at }) => at >= bbox.left && at <= bbox.left + bbox.width);
    for (const { at, foot } of inside) {
      ctx.beginPath();
      ctx.moveTo(at, foot);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
    }
    for (const { at, foot, label } of inside) {
      const wide = ctx.measureText(label).width;
      const left = Math.min(at + 4 * ratio, bbox.left + bbox.width - wide);
      // No line goes through a name.
      ctx.fillStyle = page.colors.paper;
      ctx.fillRect(left - ratio, foot - 13 * ratio, wide + 2 * ratio, 13 * ratio);
      ctx.fillStyle = page.colors.muted;
      ctx.fillText(label, left, foot);
    }
    ctx.restore();
  }
  function drawLit(self) {
    if (spec.lit === undefined || spec.lit === null) return;
    const { ctx, bbox } = self;
    const at = self.valToPos(spec.x[spec.lit], "x", true);
    ctx.save();
    ctx.strokeStyle = page.colors.accent;
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }
  function pick(index) {
    if (!spec.pick || index === null || index === undefined) return;
    for (const [id, value] of Object.entries(spec.pick(index))) page.change(id, value);
  }
  const follow = (event) => {
    const over = plot?.over.getBoundingClientRect();
    if (over && (event.type === "pointerdown" || event.buttons & 1))
      pick(plot.posToIdx(event.clientX - over.left));
  };
  for (const touched of ["pointerdown", "pointermove"])
    shell.plot.addEventListener(touched, follow);
  function readAt(index) {
    if (index === null || index === undefined) return;
    at = index;
    const { x, series } = spec;
    const values = series
      .slice(0, MOST_NAMES)
      .map(({ label, y }) => `${label} ${short(y[index] ?? Number.NaN)}`);
    const place = `${spec.xLabel} ${short(x[index])}`;
    shell.readout.textContent = page.say("value_at", { x: place, values: values.join(", ") });
  }
  shell.plot.addEventListener("keydown", (event) => {
    if (event.key === "Enter") return pick(at);
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !plot) return;
    event.preventDefault();
    const index = Math.min(
      Math.max((at ?? (by > 0 ? -1 : spec.x.length)) + by, 0),
      spec.x.length - 1,
    );
    plot.setCursor({ left: plot.valToPos(spec.x[index], "x"), top: 0 });
    readAt(index);
  });

  return {
    element: shell.frame,
    update(next, width) {
      spec = next;
      const series = spec.series.map(({ label }) => label);
      shell.place(spec.half, width);
      shell.plot.classList.toggle("picks", Boolean(spec.pick));
      const named = {
        title: spec.title ?? spec.yLabel,
        series: series.slice(0, MOST_NAMES).join(", "),
      };
      shell.name(spec.title, spec.label ?? page.say("curves_label", named));
      const height = spec.height ?? HEIGHT;
      const { xLabel, yLabel, logX, logY, yRange, marks } = spec;
      const points = spec.series.map((each) => each.points);
      const shape = JSON.stringify([
        [xLabel, yLabel, logX, logY, Boolean(yRange), marks?.length, wholeX(), wholeY()],
        [series, styles(), points, page.theme, page.lang],
      ]);
      const data = [spec.x, ...spec.series.map(({ y }) => gaps(y, spec.logY))];
      if (shape === drawn && plot) {
        if (plot.width !== width || plot.height !== height) plot.setSize({ width, height });
        plot.setData(data);
        return;
      }
      drawn = shape;
      at = null;
      bands = [];
      shell.readout.textContent = "";
      plot?.destroy();
      plot = new uPlot(options(width, height), data, shell.plot);
      nameSeries();
    },
    draw: (context, width) => plotCurves(context, spec, width, spec.height ?? HEIGHT, page.colors),
    height: () =>
      (spec.height ?? HEIGHT) + 22 * Math.ceil(Math.min(spec.series.length, MOST_NAMES) / 3),
    title: () => spec.title,
    destroy: () => plot?.destroy(),
  };

  function nameSeries() {
    const rows = styles().slice(0, MOST_NAMES);
    legend.hidden = rows.length < 2 && !spec.series[0]?.label;
    legend.replaceChildren(
      ...rows.map((style, i) => {
        const { label, points } = spec.series[i];
        return element("li", {}, swatch(style, points), element("span", {}, label));
      }),
    );
  }
  function nameBands() {
    [...legend.children].forEach((row, i) => {
      const { label } = spec.series[i];
      const text = bands[i] ? page.say("as_band", { label }) : label;
      if (row.lastChild.textContent !== text) row.lastChild.textContent = text;
    });
  }
}

const line = uPlot.paths.linear();
// Colours of series are six digits, which two more make see-through.
const translucent = (color) => `${color}59`;

function swatch({ color, dash, width }, points) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of [
    ["width", 26],
    ["height", 10],
    ["aria-hidden", "true"],
  ])
    svg.setAttribute(name, value);
  const shape = document.createElementNS("http://www.w3.org/2000/svg", points ? "circle" : "path");
  const drawn = points
    ? { cx: 13, cy: 5, r: 3, fill: color }
    : {
        d: "M0 5H26",
        stroke: color,
        "stroke-width": width + 0.5,
        "stroke-dasharray": dash?.join(" ") ?? "none",
      };
  for (const [name, value] of Object.entries(drawn)) shape.setAttribute(name, value);
  svg.append(shape);
  return svg;
}

/** The list as uPlot wants it: null where there is nothing to draw. */
function gaps(y, log) {
  for (let i = 0; i < y.length; i += 1) {
    const value = y[i];
    if (value !== null && Number.isFinite(value) && !(log && value <= 0)) continue;
    return Array.from(y, (each) =>
      each !== null && Number.isFinite(each) && !(log && each <= 0) ? each : null,
    );
  }
  return y;
}
