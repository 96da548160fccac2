import { arrow } from "#core/arrow.js";
import { label } from "#core/label.js";
import { ticks } from "#core/numbers.js";
import { panel } from "#panels/number.js";

const HANDLE = 12;
// How much is seen of a scale on which words are still to be seen.
const SEEN = 1.2;
// Where the bar of the position stands beside those of the word, and how far its number reaches, in bars.
const [APART, ROOM] = [0.4, 2];
// A share of the longest text has four digits.
const digits = (value) => String(Number(value.toFixed(4)));

/** Where things stand in a picture of this width, in CSS pixels. */
function layout(width) {
  if (width < 520)
    return {
      height: 330,
      groups: [0, width / 2 + 8], wide: width / 2 - 8,
      bars: { top: 112, base: 190, foot: 224 },
      angle: { from: [width - 70, 80], size: 66, text: [4, 24] },
      ruler: { left: 16, right: width - 16, y: 286 },
    };
  return {
    height: 400,
    groups: [0, 250], wide: 226,
    bars: { top: 40, base: 206, foot: 278 },
    angle: { from: [width - 90, 184], size: 112, text: [width - 170, 228] },
    ruler: { left: 16, right: width - 16, y: 344 },
  };
}

/** What the pointer takes: the place in the text. */
function grab({ tokens }) {
  return (x, y, width) => {
    const { left, right, y: at } = layout(width).ruler;
    if (Math.abs(y - at) > 32) return null;
    return (to) => ({ position: Math.round(((to - left) / (right - left)) * (tokens - 1)) });
  };
}

function draw(stage, data, s, say) {
  const { position: n, told } = s;
  stage.paint(
    "vectors",
    {
      height: layout(stage.width).height, grab: grab(s), steps: { x: "position" },
      label: say("picture_label", { n, next: n + 1, angle: told ? data.angle : "?" }),
    },
    (ctx, width, _, colors) => {
      const at = layout(width);
      const top = told ? Math.max(SEEN, data.rows[1].at(-1)) : SEEN;
      const unit = (at.bars.base - at.bars.top) / top;
      data.rows.forEach((row, i) => {
        const color = [colors.a, colors.b][i];
        bars(ctx, row, { ...at.bars, left: at.groups[i], wide: at.wide, unit }, color, colors);
        const name = say("word_at", { word: say(["first", "second"][i]), n: n + i });
        label(ctx, name, [at.groups[i] + at.wide / 2, at.bars.foot + 14], color, { size: 14, weight: "600" });
      });
      angle(ctx, data, at.angle, told, colors, say);
      ruler(ctx, at.ruler, s, colors, say);
    },
  );
}

/** The numbers of a word, then its position. */
function bars(ctx, row, { left, wide, top, base, unit }, color, colors) {
  const each = wide / (row.length - 1 + APART + ROOM);
  row.forEach((value, i) => {
    const last = i === row.length - 1;
    const x = left + each * (i + (last ? APART : 0));
    const high = Math.min(value * unit, base - top);
    ctx.fillStyle = last ? colors.accent : color;
    ctx.fillRect(x + 1, base - Math.max(high, 0), each - 2, Math.abs(high));
    if (!last) return;
    label(ctx, digits(value), [x, base - high - 12], colors.accent, { size: wide < 200 ? 12 : 14, weight: "600", align: "left" });
    if (value * unit > high) torn(ctx, x, top + 12, each, colors);
  });
  ctx.strokeStyle = colors.muted;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(left, base);
  ctx.lineTo(left + wide, base);
  ctx.stroke();
}

/** A bar that goes on above the picture. */
function torn(ctx, x, y, wide, colors) {
  ctx.strokeStyle = colors.paper;
  ctx.lineWidth = 3;
  for (const down of [0, 8]) {
    ctx.beginPath();
    ctx.moveTo(x - 1, y + down + 4);
    ctx.lineTo(x + wide + 1, y + down - 4);
    ctx.stroke();
  }
}

/** The two vectors as arrows with the angle that they have among all their numbers. */
function angle(ctx, data, { from, size, text: [x, y] }, told, colors, say) {
  label(ctx, say("angle"), [x, y], colors.muted, { align: "left" });
  const shown = told ? `${data.angle.toFixed(data.angle < 1 ? 2 : 0)}°` : "?";
  const color = told ? colors.accent : colors.muted;
  label(ctx, shown, [x, y + 28], color, { align: "left", size: 28, weight: "600" });
  label(ctx, say("step", { step: digits(data.step) }), [x, y + 56], colors.muted, { align: "left" });
  if (!told) return;
  const half = (data.angle * Math.PI) / 360;
  for (const [side, tint] of [[-1, colors.a], [1, colors.b]]) {
    const to = [from[0] + side * size * Math.sin(half), from[1] - size * Math.cos(half)];
    arrow(ctx, from, to, tint, false);
  }
}

function ruler(ctx, { left, right, y }, { tokens, position }, colors, say) {
  const place = (n) => left + ((right - left) * n) / (tokens - 1);
  ctx.strokeStyle = colors.muted;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(left, y);
  ctx.lineTo(right, y);
  const last = tokens - 1;
  const marks = [...ticks(0, last, right - left < 500 ? 4 : 8, true).filter((n) => n < 0.9 * last), last];
  for (const n of marks) {
    ctx.moveTo(place(n), y - 5);
    ctx.lineTo(place(n), y + 5);
  }
  ctx.stroke();
  for (const n of marks) label(ctx, String(n), [place(n), y + 24], colors.muted, { size: 12 });
  ctx.fillStyle = colors.accent;
  ctx.beginPath();
  ctx.arc(place(position), y, HANDLE, 0, 2 * Math.PI);
  ctx.fill();
  label(ctx, say("n"), [place(position), y], colors.paper, { weight: "600" });
}

export const chapter = {
  id: "number",
  panel,
  controls: ["tokens", "divided"],
  formula: ({ divided, told, tokens }) => [
    [
      divided ? "p_n = {#accent{n}}/{L}" : "p_n = #accent{n}",
      ...(told ? [`p_{n+1} - p_n = ${divided ? `{1}/{L} = {1}/{${tokens}}` : "1"}`] : []),
    ],
  ],
  predict: {
    options: ["right_angle", "half", "tiny"], right: () => "tiny",
    tells: { tokens: 1000, divided: false, position: 998 },
  },
  draw,
  text: {
    en: {
      title: "A plain number",
      lead: "Two words stand side by side, each with eight numbers. One more bar says where: the position itself. Drag n along the text.",
      question: "The words alone are nearly at a right angle. How large is the angle between the two vectors, with their positions, at the end of a text of 1000 words?",
      right_angle: "About 90°",
      half: "About 45°",
      tiny: "Less than 1°",
      answer: "Less than 1°: at position 998 the words are a rounding error beside their position. Divided by the length the number stays small, but one step is then 1/10 in one text and 1/1000 in another.",
      fails: "But the number outgrows every word, or its step depends on the length of the text.",
      leads: "So write it in digits, each 0 or 1 however far the text goes.",
      first: "dog",
      second: "man",
      n: "n",
      word_at: "{word} at {n}",
      angle: "angle between the two",
      step: "one step: {step}",
      picture_label: "The numbers of a word at {n} and of another at {next}, with their positions beside them; angle between the two: {angle} degrees. Left and right move them.",
    },
    zh: {
      title: "直接用数字",
      lead: "两个词挨在一起，各有八个数。再加一根柱子，说明它在哪里：位置本身。沿着文本拖动 n。",
      question: "只看词，两个向量几乎垂直。带上位置之后，在一篇 1000 词的文本末尾，它们的夹角有多大？",
      right_angle: "大约 90°",
      half: "大约 45°",
      tiny: "不到 1°",
      answer: "不到 1°：到了位置 998，词与位置相比只算舍入误差。除以长度之后数字不再变大，可是走一步在这篇文本里是 1/10，在那篇里是 1/1000。",
      fails: "但是这个数要么大过所有的词，要么步长随文本长度而变。",
      leads: "那就把它写成一位一位的数字：文本再长，每一位也只是 0 或 1。",
      first: "狗",
      second: "人",
      n: "n",
      word_at: "位置 {n}：{word}",
      angle: "两者的夹角",
      step: "走一步：{step}",
      picture_label: "{n} 处的词与 {next} 处的另一个词，各自的数和旁边的位置；两者的夹角：{angle} 度。左右键移动它们。",
    },
  },
};
