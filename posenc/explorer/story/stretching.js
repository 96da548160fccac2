import { dial } from "#core/dial.js";
import { short } from "#core/numbers.js";
import data from "#data/compare.js";
import { SCALINGS } from "#formulas/scalings.js";
import { METHODS } from "#math/stretched.js";
import { panel } from "#panels/stretching.js";

const MOST_DIALS = 32;
const COLUMNS = 8;
const TIMES = 4;
const LONGEST = data.lengths.at(-1);
const TRAINED_LOSS = data.encodings.rotary.loss[data.trainLength].mean.toFixed(2);
const loss = (method) => data.methods[method][LONGEST].toFixed(2);

/** Where things stand in a picture of this width, in CSS pixels. */
function layout(width) {
  const narrow = width < 520;
  const room = width / COLUMNS;
  if (narrow) return { narrow, height: 326, room, radius: 16, step: 50, ruler: { left: 13, right: width - 13, y: 240 } };
  return { narrow, height: 408, room, radius: 27, step: 76, ruler: { left: 13, right: width - 13, y: 338 } };
}

/** The times of the trained length that the ruler reaches: more only where the slider asks for more. */
const reachOf = ({ target, trained }) => Math.max(TIMES, target / trained);

/** The end of the text, anywhere on its ruler. */
function grab(row) {
  return (x, y, width) => {
    const { ruler } = layout(width);
    if (Math.abs(y - ruler.y) > 26) return null;
    return (to) => ({ factor: Math.max(1, ((to - ruler.left) / (ruler.right - ruler.left)) * reachOf(row)) });
  };
}

/** All pairs, or so many of them, evenly spread from the fastest to the slowest. */
function chosen(pairs) {
  const count = Math.min(pairs.length, MOST_DIALS);
  return Array.from({ length: count }, (_, n) => Math.round((n * (pairs.length - 1)) / Math.max(count - 1, 1)));
}

function draw(stage, { rows, chosen: at }, s, say) {
  const row = rows[at];
  const [fastest] = row.pairs;
  const told = {
    fresh: s.told ? row.fresh : "?", count: row.pairs.length, target: row.target, trained: row.trained,
    step: short(Number(fastest.step.toPrecision(3))), own: short(Number(rows[0].pairs[0].step.toPrecision(3))),
  };
  const { height } = layout(stage.width);
  stage.paint(
    "stretching",
    { height, grab: grab(row), steps: { x: "factor" }, label: say("picture_label", told) },
    (ctx, width, _, colors) => {
      const { room, radius, step, ruler, narrow } = layout(width);
      ctx.font = "12px system-ui, sans-serif";
      chosen(row.pairs).forEach((pair, n) => {
        const [x, y] = [((n % COLUMNS) + 0.5) * room, radius + 6 + Math.floor(n / COLUMNS) * step];
        dial(ctx, [x, y], radius, row.pairs[pair], s.told, colors);
        ctx.fillStyle = colors.muted;
        ctx.textAlign = "center";
        ctx.textBaseline = "top";
        ctx.fillText(String(pair), x, y + radius + 5);
      });
      text(ctx, ruler, row, s.told, colors, say);
      ctx.textAlign = "left";
      ctx.textBaseline = "top";
      ctx.font = "600 14px system-ui, sans-serif";
      ctx.fillStyle = s.told ? (row.fresh ? colors.b : colors.a) : colors.muted;
      ctx.fillText(say("fresh_count", told), ruler.left, ruler.y + 38);
      ctx.font = "13px system-ui, sans-serif";
      ctx.fillStyle = colors.ink;
      const beside = narrow ? [ruler.left, ruler.y + 60] : [width / 2, ruler.y + 39];
      ctx.fillText(say("step_count", told), ...beside);
    },
  );
}

/** The text that is read, on a ruler: as in training, and beyond. */
function text(ctx, ruler, row, told, colors, say) {
  const { trained, target } = row;
  const place = (tokens) => ruler.left + ((ruler.right - ruler.left) * tokens) / (trained * reachOf(row));
  const line = (from, to, color, width) => {
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.moveTo(from, ruler.y);
    ctx.lineTo(to, ruler.y);
    ctx.stroke();
  };
  line(ruler.left, ruler.right, colors.grid, 6);
  line(ruler.left, place(target), told ? colors.b : colors.muted, 6);
  line(ruler.left, place(trained), colors.a, 6);
  ctx.fillStyle = colors.accent;
  ctx.beginPath();
  ctx.arc(place(target), ruler.y, 11, 0, 2 * Math.PI);
  ctx.fill();
  ctx.font = "12px system-ui, sans-serif";
  ctx.textBaseline = "top";
  ctx.fillStyle = colors.a;
  ctx.textAlign = "left";
  const [before, now] = [say("trained_at", { trained }), say("target_at", { target })];
  ctx.fillText(before, ruler.left, ruler.y + 15);
  const room = ruler.left + ctx.measureText(before).width + 14;
  ctx.fillStyle = colors.accent;
  ctx.font = "600 12px system-ui, sans-serif";
  const wide = ctx.measureText(now).width;
  // Below the end of the text, within the picture, and beside the other name.
  ctx.fillText(now, Math.max(Math.min(place(target) - wide / 2, ruler.right - wide), room), ruler.y + 15);
}

function formula({ told }, data) {
  if (data === null) return [];
  const { trained, target, name, settings } = data.rows[data.chosen];
  const rows = [["θ_i = base^{-2i/d}", SCALINGS[name](settings)[0]]];
  if (told) rows.push([`#b{#accent{${target - 1}} h_i > ${trained} θ_i} ∧`, `#a{${trained - 1} θ_i < 2 π} ⇒ new_i`]);
  return rows;
}

export const chapter = {
  id: "stretching",
  panel,
  holds: { d: 64, base: 10_000, trained: 4096 },
  // What a pasted config.json says needs the workshop's room.
  options: { method: METHODS },
  controls: ["factor", "method"],
  formula,
  predict: { options: ["fast", "slow", "all"], right: () => "slow" },
  draw,
  text: {
    en: {
      lead: "Each dial is a pair of a RoPE head, the fastest first; its hand stands where the whole length of the text turns it. Drag the end of the text. The grey wedge is the step from one token to the next.",
      fast: "The fast ones",
      slow: "The slow ones",
      all: "All of them",
      answer: "The slow ones: a pair that went round in training has shown all its angles, in blue, and one that did not meets new ones, in red. Now choose a method, and watch the red and the wedges: linear turns all red blue, and brings neighbours closer together by the same factor.",
      fails: `But angles that training knows are not yet a model that reads well: not trained for them, RoPE's model of the chapter before has a loss of ${loss("linear")} with linear and ${loss("yarn")} with YaRN at ${LONGEST} bytes, after ${TRAINED_LOSS} at ${data.trainLength}.`,
      leads: "So measure: posenc extend tries the methods on your model, with a short training if you like, and make compare trains small ones; the lessons tell the whole story, and below is the workshop with every picture.",
      fresh_count: "{fresh} of {count} pairs meet new angles",
      step_count: "one token turns pair 0 by {step} rad, in training by {own}",
      trained_at: "trained: {trained}",
      target_at: "read: {target} tokens",
      picture_label: "{count} pairs as dials; a text of {target} tokens after training on {trained}: {fresh} pairs meet new angles. Left and right change the length.",
    },
    zh: {
      lead: "每个表盘是 RoPE 头里的一个维度对，最快的在前；指针是整段文本使它转到的位置。拖动文本的末端。灰色扇形是从一个词元到下一个词元的一步。",
      fast: "快的",
      slow: "慢的",
      all: "全部",
      answer: "慢的：训练中转满一圈的维度对，所有角度都见过（蓝色）；没转满的会遇到新角度（红色）。现在换一种方法，看红色和扇形怎样变化：线性插值把红色全部变蓝，相邻词元也按同样的倍数靠近了。",
      fails: `但是角度都见过，不等于模型读得好：不为此再训练，上一章的 RoPE 模型读 ${LONGEST} 字节时，线性插值的损失为 ${loss("linear")}，YaRN 为 ${loss("yarn")}，而读 ${data.trainLength} 字节时是 ${TRAINED_LOSS}。`,
      leads: "所以要测量：posenc extend 在你的模型上试各种方法，需要时再训练一小段，make compare 训练小模型来比较；课文讲完整的来龙去脉，下面的工作台里有每一张图。",
      fresh_count: "{count} 个维度对中有 {fresh} 个遇到新角度",
      step_count: "一个词元使第 0 对转过 {step} 弧度，训练时为 {own}",
      trained_at: "训练：{trained}",
      target_at: "读入：{target} 个词元",
      picture_label: "{count} 个维度对画成表盘；训练长度 {trained}，现在读 {target} 个词元：{fresh} 个维度对遇到新角度。左右键改变长度。",
    },
  },
};
