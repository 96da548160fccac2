import { element, sizeCanvas } from "#core/dom.js";
import { figure } from "#core/figure.js";
import { short, ticks } from "#core/numbers.js";
import { classColors, ramp } from "#core/palette.js";
import { cellReader, raster } from "#core/raster.js";

const LEFT = 54;
const TOP = 8;
const BOTTOM = 42;
const BAR = 72;
const LINE = 18;
const FONT = "12px system-ui, sans-serif";

/**
 * A matrix as colours, with axes, a scale and single cells to read; see `stage.heatmap`.
 *
 * spec.pick(row, column) are the changes of controls, { m: 5 }, that choosing a cell makes, by pointer
 * or Enter; spec.lit is the [row, column] that stands framed, either null for a whole column or row.
 */
export function heatmap(page) {
  const shell = figure("heatmap");
  const canvas = element("canvas");
  const cross = element("div", { class: "cross", hidden: true });
  const legend = element("ul", { class: "legend" });
  shell.plot.append(canvas, cross);
  shell.frame.insertBefore(legend, shell.readout);
  const picture = document.createElement("canvas");
  let spec = null;
  let frame = null;
  let range = [0, 1];
  let cell = null;
  let picked = false;

  function paintOn(context, width, height) {
    const box = boxOf(spec, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(picture, box.left, box.top, box.width, box.height);
    context.font = FONT;
    axes(context, spec, box, page.colors);
    if (spec.palette !== "categorical") bar(context, spec, box, range, page);
    if (spec.lit) light(context, spec, box, page.colors);
  }
  function pick(row, column) {
    if (!spec.pick) return;
    picked = true;
    for (const [id, value] of Object.entries(spec.pick(row, column))) page.change(id, value);
  }
  function read(row, column) {
    cell = [row, column];
    const { rows, cols } = spec;
    cross.hidden = false;
    cross.style.left = `${frame.left + (column / cols) * frame.width}px`;
    cross.style.top = `${frame.top + (row / rows) * frame.height}px`;
    cross.style.width = `${Math.max(frame.width / cols, 3)}px`;
    cross.style.height = `${Math.max(frame.height / rows, 3)}px`;
    shell.readout.textContent = spec.hover ? spec.hover(row, column) : plain(row, column);
  }
  function plain(row, column) {
    const value = cellReader(spec)(row, column);
    const named = spec.classes?.[value] ?? (Number.isNaN(value) ? page.say("empty") : value);
    const names = { row: spec.rowLabel?.(row) ?? row, column: spec.colLabel?.(column) ?? column };
    return page.say("cell", { ...names, value: named });
  }
  function point(event) {
    const bounds = canvas.getBoundingClientRect();
    const column = Math.floor(
      ((event.clientX - bounds.left - frame.left) / frame.width) * spec.cols,
    );
    const row = Math.floor(((event.clientY - bounds.top - frame.top) / frame.height) * spec.rows);
    if (row < 0 || column < 0 || row >= spec.rows || column >= spec.cols) return;
    if (event.type === "pointerdown" || event.buttons & 1) pick(row, column);
    read(row, column);
  }
  // A finger that taps goes down and up, and never moves.
  for (const touched of ["pointerdown", "pointermove"])
    shell.plot.addEventListener(touched, point);
  shell.plot.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && cell) return pick(...cell);
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[
      event.key
    ];
    if (!by) return;
    event.preventDefault();
    const [row, column] = cell ? [cell[0] + by[0], cell[1] + by[1]] : [0, 0];
    read(Math.min(Math.max(row, 0), spec.rows - 1), Math.min(Math.max(column, 0), spec.cols - 1));
  });

  return {
    element: shell.frame,
    update(next, width) {
      spec = next;
      shell.place(spec.half, width);
      shell.plot.classList.toggle("picks", Boolean(spec.pick));
      shell.name(
        spec.title,
        spec.label ??
          page.say("heatmap_label", { title: spec.title ?? `${spec.yLabel}, ${spec.xLabel}` }),
      );
      const height = heightOf(spec, width);
      frame = boxOf(spec, width, height);
      const colours =
        spec.palette === "categorical" ? classColors(page.colors) : ramp(spec.palette, page.theme);
      const ratio = devicePixelRatio || 1;
      range = raster(
        picture,
        spec,
        Math.round(frame.width * ratio),
        Math.round(frame.height * ratio),
        colours.pixels,
      );
      paintOn(sizeCanvas(canvas, width, height), width, height);
      nameClasses(colours.css);
      // What was read belongs to the picture before, but for a cell that was chosen there.
      cross.hidden = true;
      if (cell && (cell[0] >= spec.rows || cell[1] >= spec.cols)) cell = null;
      if (picked && cell) read(...cell);
      else if (shell.readout.textContent) shell.readout.textContent = "";
      picked = false;
    },
    draw: (context, width) => paintOn(context, width, heightOf(spec, width)),
    height: (width) => heightOf(spec, width),
    title: () => spec.title,
    destroy() {},
  };

  function nameClasses(css) {
    legend.hidden = !spec.classes;
    const names = spec.classes ?? [];
    legend.replaceChildren(
      ...names.map((name, i) => {
        const swatch = element("span", { class: "swatch" });
        swatch.style.background = css[i % css.length];
        return element("li", {}, swatch, name);
      }),
    );
  }
}

/** Cells are square where that fits, never higher than wide. */
function heightOf(spec, width) {
  if (spec.height) return spec.height;
  const room = width - LEFT - BAR;
  // Few rows are high enough to be named one by one.
  const least = spec.rows <= 20 ? Math.max(90, 15 * spec.rows) : 90;
  const inner = Math.min(Math.max((room * spec.rows) / spec.cols, least), Math.min(room, 380));
  return Math.round(inner) + TOP + BOTTOM;
}

function boxOf(spec, width, height) {
  const right = spec.palette === "categorical" ? 12 : BAR;
  let wide = width - LEFT - right;
  const high = height - TOP - BOTTOM;
  // A square matrix stays square instead of filling a wide screen.
  if (!spec.height && spec.rows >= spec.cols / 2 && spec.rows <= spec.cols * 2) {
    wide = Math.min(wide, (high * spec.cols) / spec.rows);
  }
  return { left: LEFT, top: TOP, width: wide, height: high };
}

function axes(context, spec, box, colors) {
  const bottom = box.top + box.height;
  context.strokeStyle = colors.grid;
  context.fillStyle = colors.muted;
  context.lineWidth = 1;
  context.setLineDash([]);
  context.strokeRect(box.left, box.top, box.width, box.height);
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const column of places(spec.cols, box.width / 60, box.width / 36)) {
    const text = spec.colLabel?.(column) ?? short(column);
    context.fillText(text, box.left + ((column + 0.5) / spec.cols) * box.width, bottom + 6);
  }
  context.fillText(spec.xLabel ?? "", box.left + box.width / 2, bottom + 24);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const row of places(spec.rows, box.height / 34, box.height / 14)) {
    const text = spec.rowLabel?.(row) ?? short(row);
    context.fillText(text, box.left - 6, box.top + ((row + 0.5) / spec.rows) * box.height);
  }
  context.save();
  context.translate(11, box.top + box.height / 2);
  context.rotate(-Math.PI / 2);
  context.textAlign = "center";
  context.fillText(spec.yLabel ?? "", 0, 0);
  context.restore();
}

/** The cell that is lit, or the whole row or column of it. */
function light(context, { lit: [row, column], rows, cols }, box, colors) {
  const [wide, high] = [box.width / cols, box.height / rows];
  const [left, width] = column === null ? [0, box.width] : [column * wide, wide];
  const [top, height] = row === null ? [0, box.height] : [row * high, high];
  context.lineWidth = 2;
  context.strokeStyle = colors.accent;
  context.strokeRect(box.left + left, box.top + top, Math.max(width, 3), Math.max(height, 3));
}

/** Rows or columns that get a number: all of a few, else round steps. */
function places(count, room, most) {
  if (count <= Math.max(most, 2)) return Array.from({ length: count }, (_, i) => i);
  return ticks(0, count - 1, Math.max(2, room), true);
}

function bar(context, spec, box, [low, high], page) {
  const { css } = ramp(spec.palette, page.theme);
  const left = box.left + box.width + 10;
  const steps = 48;
  for (let i = 0; i < steps; i += 1) {
    context.fillStyle = css(1 - (i + 0.5) / steps);
    context.fillRect(left, box.top + (i / steps) * box.height, 9, box.height / steps + 0.5);
  }
  context.fillStyle = page.colors.muted;
  context.textAlign = "left";
  const place = (value) => (high - value) / (high - low || 1);
  // Zero is named where the ends' names leave it room.
  const room = place(0) * box.height > LINE && (1 - place(0)) * box.height > LINE;
  for (const value of room ? [low, 0, high] : [low, high]) {
    const share = place(value);
    context.textBaseline = share < 0.1 ? "top" : share > 0.9 ? "bottom" : "middle";
    context.fillText(short(Number(value.toPrecision(3))), left + 13, box.top + share * box.height);
  }
}
