import { foot, side, SMALL } from "#core/axis.js";
import { cells, frame } from "#core/cells.js";
import { colorScale } from "#core/color_scale.js";
import { dot, line } from "#core/marks.js";
import { ticks } from "#core/numbers.js";
import { wavelengths } from "#math/frequencies.js";
import { frequencies } from "#math/sinusoidal.js";
import { panel } from "#panels/waves.js";

const [POSITIONS, WIDTH, BASE] = [96, 64, 10_000];
// From here to there the periods grow tenfold.
const TENFOLD = 16;
const RANGE = [-1, 1];

/** Where the table, the wave of its lit row and its lit column stand, in CSS pixels. */
function layout(width) {
  const narrow = width < 520;
  const [column, periods] = narrow ? [52, 48] : [90, 64];
  // Every row as high as the others, in whole pixels: they alternate, and would merge.
  const table = { left: 44, top: 22, width: width - 44 - column - periods - 16, height: 4 * WIDTH };
  const wave = { ...table, top: table.top + table.height + 12, height: narrow ? 62 : 72 };
  return {
    height: wave.top + wave.height + 38, table, wave,
    column: { ...table, left: table.left + table.width + 8, width: column },
    periods: table.left + table.width + 16 + column,
  };
}
const shareOf = (at, from, size, count) =>
  Math.min(Math.max(Math.floor(((at - from) / size) * count), 0), count - 1);
const inside = (x, y, { left, top, width, height }) =>
  x >= left && x <= left + width && y >= top && y <= top + height;

/** What the pointer takes: a cell of the table, a place on the wave, a number of the column. */
function grab(x, y, width) {
  const { table, wave, column } = layout(width);
  const at = (to) => ({ lit: shareOf(to, table.left, table.width, POSITIONS) });
  const row = (to) => ({ first: shareOf(to, table.top, table.height, WIDTH) });
  if (inside(x, y, table)) return (toX, toY) => ({ ...at(toX), ...row(toY) });
  if (inside(x, y, wave)) return (toX) => at(toX);
  return inside(x, y, column) ? (_, toY) => row(toY) : null;
}

/** Tokens after which the wave of each pair of rows comes round. */
const periodsOf = (s) => wavelengths(frequencies(s.d, s.base));

function draw(stage, { a }, s, say) {
  const { height } = layout(stage.width);
  const value = a.values[s.lit * a.columns + s.first];
  const label = say("picture_label", { at: s.lit, row: s.first, value });
  stage.paint(
    "waves",
    { height, grab, steps: { x: "lit", down: "first" }, label },
    (ctx, width, _, colors) => {
      const places = layout(width);
      const { table } = places;
      const size = { rows: WIDTH, cols: POSITIONS };
      const values = (row, at) => a.values[at * a.columns + row];
      cells(ctx, table, { ...size, values, range: RANGE }, stage.page.theme);
      colorScale(ctx, [table.left, 8], say("value"), RANGE, RANGE, stage.page.theme, colors);
      frame(ctx, table, size, [s.first, null], colors.a);
      frame(ctx, table, size, [null, s.lit], colors.accent);
      side(ctx, table, say("dimension"), colors);
      names(ctx, places, s, colors, say);
      wave(ctx, places, a, s, colors, say);
      column(ctx, places, a, s, colors);
    },
  );
}

/** Numbers of rows on the left; on the right, once it may be told, after how many tokens they come round. */
function names(ctx, { table, periods, column }, s, colors, say) {
  ctx.font = SMALL;
  ctx.textBaseline = "middle";
  const tall = table.height / WIDTH;
  const found = periodsOf(s);
  for (let row = 0; row <= WIDTH; row += TENFOLD) {
    const shown = Math.min(row, WIDTH - 1);
    const y = table.top + (shown + 0.5) * tall;
    ctx.textAlign = "right";
    ctx.fillStyle = colors.muted;
    ctx.fillText(String(shown), table.left - 5, y);
    ctx.textAlign = "left";
    ctx.fillStyle = shown === row ? colors.ink : colors.b;
    const period = found[Math.floor(shown / 2)];
    ctx.fillText(s.told ? period.toFixed(period < 10 ? 1 : 0) : "?", periods, y);
  }
  ctx.textBaseline = "alphabetic";
  ctx.fillStyle = colors.muted;
  ctx.fillText(say("period"), periods, table.top - 8);
  ctx.textAlign = "center";
  ctx.fillStyle = colors.accent;
  ctx.font = "italic 14px serif";
  ctx.fillText(`p(${s.lit})`, column.left + column.width / 2, table.top - 7);
}

/** The lit row as a wave along position. */
function wave(ctx, { wave: box, column, periods }, { values, columns }, s, colors, say) {
  const x = (at) => box.left + ((at + 0.5) / POSITIONS) * box.width;
  const y = (value) => box.top + (box.height * (1 - 0.92 * value)) / 2;
  const at = (position) => values[position * columns + s.first];
  line(ctx, [[box.left, y(0)], [box.left + box.width, y(0)]], colors.grid, 1);
  line(ctx, [[x(s.lit), box.top - 12], [x(s.lit), box.top + box.height]], colors.accent, 2);
  line(ctx, Array.from({ length: POSITIONS }, (_, n) => [x(n), y(at(n))]), colors.a, 2);
  dot(ctx, x(s.lit), y(at(s.lit)), colors.accent);
  const marks = ticks(0, POSITIONS - 1, box.width / 60, true).map((n) => [n, x(n)]);
  foot(ctx, { ...box, y: box.top + box.height }, marks, say("position"), colors);
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.font = SMALL;
  ctx.fillStyle = colors.a;
  const middle = box.top + box.height / 2;
  ctx.fillText(say("row_shown", { row: s.first }), column.left, middle - 12);
  const period = periodsOf(s)[Math.floor(s.first / 2)];
  if (s.told) ctx.fillText(period.toFixed(period < 100 ? 1 : 0), periods, middle - 12);
  ctx.fillStyle = colors.accent;
  ctx.font = "600 15px system-ui, sans-serif";
  ctx.fillText(at(s.lit).toFixed(3), column.left, middle + 10);
}

/** The lit column, from top to bottom as its rows stand. */
function column(ctx, { column: box }, { values, columns }, s, colors) {
  const y = (row) => box.top + ((row + 0.5) / WIDTH) * box.height;
  const x = (value) => box.left + (box.width * (1 + 0.94 * value)) / 2;
  const at = (row) => values[s.lit * columns + row];
  line(ctx, [[x(0), box.top], [x(0), box.top + box.height]], colors.grid, 1);
  ctx.lineWidth = 1.5;
  ctx.strokeStyle = colors.accent;
  ctx.beginPath();
  for (let row = 0; row < WIDTH; row += 1) {
    ctx.moveTo(x(0), y(row));
    ctx.lineTo(x(at(row)), y(row));
  }
  ctx.stroke();
  line(ctx, [[box.left - 8, y(s.first)], [x(at(s.first)), y(s.first)]], colors.a, 2);
  dot(ctx, x(at(s.first)), y(s.first), colors.accent);
}

export const chapter = {
  id: "waves",
  panel,
  holds: { a: "sinusoidal", b: "sinusoidal", d: WIDTH, base: BASE, length: POSITIONS, layout: "interleaved" },
  controls: ["lit", "first"],
  formula: ({ told }) => [
    ["p_{#accent{n},#a{2i}} = sin(#accent{n} θ_i)", "p_{#accent{n},#a{2i+1}} = cos(#accent{n} θ_i)"],
    told ? [`θ_i = ${BASE}^{-2i/${WIDTH}}`, "period_i = {2 π}/{θ_i}"] : [],
  ],
  predict: { options: ["tens", "thousands", "ten_thousands"], right: () => "ten_thousands" },
  draw,
  text: {
    en: {
      title: "A table of waves",
      lead: "Each circle gives two rows, its sine and its cosine: fast circles at the top, slow ones at the bottom. A position is a column. Drag across the table: on the right stands the lit column, below the lit row.",
      question: "The first wave comes round after about 6 positions, and each of the 31 slower ones takes a third longer than the one before. After how many does the last come round?",
      tens: "about 70",
      thousands: "about 2,000",
      ten_thousands: "about 47,000",
      answer: "After about 47,000: a third more, 31 times over. So the top rows tell neighbours apart, and the bottom rows the regions of a long text.",
      fails: "But a column says only where its own token is, and nothing in it says how far away another one is.",
      leads: "Multiply two columns number by number and add up: does their inner product know?",
      lit: "Position n",
      first: "Row",
      row_shown: "row {row}",
      period: "period",
      dimension: "row (dimension)",
      picture_label: "The table of sinusoids, one column per position, lit at position {at} and row {row}, where it has {value}. Left and right move the position, up and down the row.",
    },
    zh: {
      title: "一张波的表",
      lead: "每个圆占两行，一行正弦，一行余弦：快的在上，慢的在下。每一列是一个位置。在表上拖动：右边是点亮的那一列，下面是点亮的那一行。",
      question: "第一个波大约 6 个位置转完一圈，后面 31 个一个比一个慢，每个都比前一个长三分之一。最后一个要多少个位置才转完一圈？",
      tens: "约 70",
      thousands: "约 2000",
      ten_thousands: "约 47000",
      answer: "约 47000 个：长三分之一，连乘 31 次。于是上面的行分得清相邻的位置，下面的行分得清长文本的不同区段。",
      fails: "但是每一列只说明自己的词元在哪里，看不出另一个词元离它多远。",
      leads: "把两列逐个数相乘再相加：它们的内积知道距离吗？",
      lit: "位置 n",
      first: "行",
      row_shown: "第 {row} 行",
      period: "周期",
      dimension: "行（维度）",
      picture_label: "正弦位置编码的表，每列一个位置，点亮的是位置 {at}、第 {row} 行，那里的值是 {value}。左右键移动位置，上下键移动行。",
    },
  },
};
