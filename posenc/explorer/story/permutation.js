import { label } from "#core/label.js";
import { ramp, tint } from "#core/palette.js";
import compared from "#data/compare.js";
import { numberOf } from "#math/sentence.js";
import { panel } from "#panels/permutation.js";

const CHIP = 32;
const STRIP = 22;
// What causal models lose at the length of their training, without position and with it.
const LOSSES = Object.entries(compared.encodings).map(([name, { loss }]) => [name, loss[compared.trainLength].mean]);
const WITH = LOSSES.filter(([name]) => name !== "none").map(([, loss]) => loss);
const [NONE, LEAST, MOST] = [Object.fromEntries(LOSSES).none, Math.min(...WITH), Math.max(...WITH)].map((loss) => loss.toFixed(2));

/** Heights of what stands below each other, in CSS pixels; the row to drag mirrors the one above. */
function layout(width) {
  const narrow = width < 520;
  const height = narrow ? 330 : 390;
  const fan = narrow ? 24 : 34;
  const first = { chip: 26, strip: 26 + CHIP + fan };
  const second = { chip: height - 26 - CHIP, strip: height - 26 - CHIP - fan - STRIP };
  return { narrow, height, first, second };
}
/** Middle and breadth of the words, and the place that is nearest to x. */
function columns(width, count) {
  const each = width / count;
  const place = (x) => Math.min(Math.max(Math.floor(x / each), 0), count - 1);
  return { x: (at) => (at + 0.5) * each, box: Math.min(each - 8, 130), place };
}

/** What the pointer takes: a word of the second row, to another place of it. */
function grab(order) {
  return (x, y, width) => {
    const { chip, strip } = layout(width).second;
    if (y < strip - 6 || y > chip + CHIP + 8) return null;
    const { place } = columns(width, order.length);
    const from = place(x);
    return (to) => {
      const others = order.filter((_, at) => at !== from);
      others.splice(place(to), 0, order[from]);
      return { order: numberOf(others) };
    };
  };
}

function draw(stage, data, s, say) {
  const { words, order } = data;
  stage.paint(
    "sentences",
    {
      height: layout(stage.width).height, grab: grab(order), steps: { x: "order" },
      label: say("picture_label", { first: words.join(" "), second: order.map((from) => words[from]).join(" ") }),
    },
    (ctx, width, _, colors) => {
      const { first, second, height } = layout(width);
      const at = columns(width, words.length);
      const { css } = ramp("diverging", s.theme);
      const most = Math.max(...data.before.flat().map(Math.abs));
      const shown = (values) => values.map((value) => css(0.5 + value / (2 * most)));
      const color = (from) => tint(words.indexOf(words[from]), colors);
      if (s.told) same(ctx, data, at, color, [first, second]);
      fan(ctx, at, words.length, [first.chip + CHIP, first.strip], colors);
      fan(ctx, at, words.length, [second.strip + STRIP, second.chip], colors);
      words.forEach((word, from) => {
        chip(ctx, word, at.x(from), first.chip, at.box, color(from), colors);
        strip(ctx, shown(data.before[from]), at.x(from), first.strip, at.box, color(from));
      });
      order.forEach((from, to) => {
        chip(ctx, words[from], at.x(to), second.chip, at.box, color(from), colors);
        const cells = s.told ? shown(data.after[to]) : null;
        strip(ctx, cells, at.x(to), second.strip, at.box, color(from), colors);
      });
      const caption = { size: 12, align: "left" };
      label(ctx, say("row_first"), [2, 12], colors.muted, caption);
      label(ctx, say("row_second"), [2, height - 12], colors.muted, caption);
    },
  );
}

/** Lines between outputs that are the same vector. */
function same(ctx, { order, change }, { x }, color, [first, second]) {
  const [top, bottom] = [first.strip + STRIP, second.strip];
  const middle = (top + bottom) / 2;
  ctx.lineWidth = 3;
  order.forEach((from, to) => {
    if (change[to] > 1e-9) return;
    ctx.strokeStyle = color(from);
    ctx.beginPath();
    ctx.moveTo(x(from), top);
    ctx.bezierCurveTo(x(from), middle, x(to), middle, x(to), bottom);
    ctx.stroke();
  });
}

/** Every word goes into every output. */
function fan(ctx, { x }, count, [top, bottom], colors) {
  ctx.strokeStyle = colors.grid;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  for (let from = 0; from < count; from += 1)
    for (let to = 0; to < count; to += 1) {
      ctx.moveTo(x(from), top);
      ctx.lineTo(x(to), bottom);
    }
  ctx.stroke();
}

function chip(ctx, word, x, y, box, color, colors) {
  ctx.fillStyle = colors.paper;
  ctx.fillRect(x - box / 2, y, box, CHIP);
  ctx.strokeStyle = color;
  ctx.lineWidth = 2;
  ctx.strokeRect(x - box / 2, y, box, CHIP);
  const room = Math.max(1, Math.floor(box / 9));
  label(ctx, word.length > room ? `${word.slice(0, room)}…` : word, [x, y + CHIP / 2], colors.ink, { size: 15 });
}

/** The numbers of an output as colours; not yet known, a question mark. */
function strip(ctx, cells, x, y, box, color, colors) {
  const left = x - box / 2;
  cells?.forEach((cell, i) => {
    ctx.fillStyle = cell;
    ctx.fillRect(left + (i * box) / cells.length, y, box / cells.length + 0.5, STRIP);
  });
  if (!cells) {
    ctx.fillStyle = colors.paper;
    ctx.fillRect(left, y, box, STRIP);
    label(ctx, "?", [x, y + STRIP / 2], colors.muted, { size: 15, weight: "600" });
  }
  ctx.strokeStyle = color;
  ctx.lineWidth = 1;
  ctx.strokeRect(left, y, box, STRIP);
}

export const chapter = {
  id: "permutation",
  panel,
  holds: { d: 8 },
  controls: ["words"],
  byHand: ["order"],
  formula: ({ told }) => [["y_m = ∑_n a_{m,n} x_n", ...(told ? ["Attn(P X) = P Attn(X)"] : [])]],
  predict: { options: ["moved", "all", "none"], right: () => "none" },
  draw,
  text: {
    en: {
      lead: "A Transformer reads all words at once: the output of each word, eight numbers shown as colours, is a mix of all of them. Below, the same words stand in another order. Drag them.",
      question: "The words change places. Which of them get another output?",
      moved: "Those that moved",
      all: "All of them",
      none: "None of them",
      answer: `None: a sum does not care what is added first, and its weights depend on the words alone, so each word takes its output along, number by number. A causal mask, under which a later word sees more, does tell order, and a decoder can do with it alone: the models of chapter 10 then have a loss of ${NONE}, and with positions one of ${LEAST} to ${MOST}.`,
      fails: "But without a mask nobody can tell who bites whom: both sentences are one bag of outputs.",
      leads: "So give each word a number, its position.",
      row_first: "a sentence, and the output of each word",
      row_second: "the same words in another order: drag them",
      picture_label: "“{first}” with an output for each word, and below it “{second}”. Left and right go through the orders.",
    },
    zh: {
      lead: "Transformer 一次读入所有的词，每个词的输出是八个数，画成八格颜色，由所有的词混合而成。下面是同样的词，换了顺序。拖动它们。",
      question: "词换了位置，哪些词的输出会变？",
      moved: "换了位置的词",
      all: "所有的词",
      none: "都不变",
      answer: `都不变：求和不在乎先加哪一项，权重又只看词本身，所以每个词都带着自己的输出一起走，一个数也不差。因果掩码倒是能透露顺序，因为越靠后的词看到的越多，解码器只靠它也行，但有代价：第 10 章的模型没有位置时损失为 ${NONE}，有位置时为 ${LEAST} 到 ${MOST}。`,
      fails: "但是没有掩码，谁咬了谁就分不清了：两句话是同一袋输出。",
      leads: "那就给每个词一个数：它的位置。",
      row_first: "一句话，以及每个词的输出",
      row_second: "同样的词，换个顺序：拖动它们",
      picture_label: "“{first}”，每个词有一个输出；下面是“{second}”。左右键逐一换到别的顺序。",
    },
  },
};
