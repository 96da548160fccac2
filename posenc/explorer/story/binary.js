import { label } from "#core/label.js";
import { panel, written } from "#panels/binary.js";

// Beyond this, what is asked could be read off the picture.
const KNOWN = 7;

/** Where things stand in a picture of this width, in CSS pixels. */
function layout(width, count) {
  const narrow = width < 520;
  const left = narrow ? 20 : 34;
  const each = (width - left - 2) / 2 ** count;
  const row = narrow ? 30 : 42;
  const top = 8;
  const foot = top + count * row;
  const height = narrow ? 330 : 400;
  const place = (x) => Math.floor((x - left) / each);
  return {
    narrow, left, each, row, top, foot, height, place,
    radius: Math.min(each, row) * 0.4,
    x: (n) => left + (n + 0.5) * each,
    bars: { top: foot + (narrow ? 76 : 84), base: height - 8 },
  };
}

/** What the pointer takes: the place in the text. */
function grab(count) {
  return (_, y, width) => {
    const { foot, place } = layout(width, count);
    return y > foot + 28 ? null : (to) => ({ position: place(to) });
  };
}

function draw(stage, data, s, say) {
  const { position: n, count, told } = s;
  stage.paint(
    "digits",
    {
      height: layout(stage.width, count).height,
      grab: grab(count),
      steps: { x: "position" },
      label: say("picture_label", { n, written: told || n <= KNOWN ? written(data.rows[n]) : "?" }),
    },
    (ctx, width, _, colors) => {
      const at = layout(width, count);
      bulbs(ctx, data, s, at, colors);
      const caption = [at.left, at.bars.top - 28];
      label(ctx, say("apart_figure", { n }), caption, colors.muted, { align: "left" });
      if (told) bars(ctx, data.apart, s, at, colors);
      else label(ctx, "?", [width / 2, (at.bars.top + at.bars.base) / 2], colors.muted, { size: 28, weight: "600" });
      ctx.strokeStyle = colors.accent;
      ctx.lineWidth = 2;
      ctx.strokeRect(at.x(n) - at.each / 2, 2, at.each, at.foot + 24);
    },
  );
}

/** One column of bulbs for each position, the slowest digit on top; a bulb that shines is a 1. */
function bulbs(ctx, { rows }, { position, count, told }, at, colors) {
  const y = (i) => at.top + (count - 1 - i + 0.5) * at.row;
  rows.forEach((row, n) => {
    const known = told || n <= KNOWN;
    row.forEach((digit, i) => {
      ctx.beginPath();
      ctx.arc(at.x(n), y(i), at.radius, 0, 2 * Math.PI);
      ctx.setLineDash(known ? [] : [2, 3]);
      ctx.fillStyle = known && digit ? colors.a : colors.paper;
      ctx.fill();
      ctx.strokeStyle = known ? colors.a : colors.muted;
      ctx.lineWidth = 1.25;
      ctx.stroke();
    });
    ctx.setLineDash([]);
    const lit = n === position;
    const style = { size: at.narrow ? 12 : 14, weight: lit ? "600" : "400" };
    label(ctx, String(n), [at.x(n), at.foot + 13], lit ? colors.accent : colors.muted, style);
  });
  for (let i = 0; i < count; i += 1)
    label(ctx, String(2 ** i), [at.left - 6, y(i)], colors.muted, { size: 12, align: "right" });
}

/** In how many digits each position differs from the one that is lit; its neighbours stand out. */
function bars(ctx, apart, { position, count }, at, colors) {
  const { top, base } = at.bars;
  apart.forEach((differ, n) => {
    const high = (differ / count) * (base - top);
    const beside = Math.abs(n - position) === 1;
    ctx.fillStyle = beside ? colors.b : colors.muted;
    ctx.fillRect(at.x(n) - at.each * 0.35, base - high, at.each * 0.7, Math.max(high, 1));
    const style = { size: at.narrow ? 12 : 14, weight: beside ? "600" : "400" };
    label(ctx, String(differ), [at.x(n), base - high - 10], beside ? colors.b : colors.muted, style);
  });
}

export const chapter = {
  id: "binary",
  panel,
  controls: ["position"],
  formula: ({ position, told }, data) => {
    const shown = data && (told || position <= KNOWN);
    return [["digit_i = ⌊#accent{n} / 2^i⌋ mod 2", ...(shown ? [`#accent{${position}} = ${written(data.rows[position])}`] : [])]];
  },
  predict: { options: ["near", "far", "alike"], right: () => "far", at: 7 },
  draw,
  text: {
    en: {
      title: "Digits of 0 and 1",
      lead: "Each column is a position written with four binary digits; a bulb that shines is a 1, and says 8, 4, 2 or 1. Drag the frame along the text.",
      question: "Compare the columns bulb by bulb: which position is more like 7?",
      near: "8, its neighbour",
      far: "15, eight steps away",
      alike: "Both alike",
      answer: "15: it differs from 7 in one bulb, and 8 differs in all four.",
      fails: "But a neighbour can be as far away as the digits allow, and between 0 and 1 a digit has nothing.",
      leads: "So let each digit turn smoothly, like the hand of a clock.",
      picture_label: "Positions in binary digits as columns of bulbs; {n} is written {written}. Left and right move along the text.",
      apart_figure: "In how many digits does each differ from {n}?",
    },
    zh: {
      title: "只用 0 和 1",
      lead: "每一列是一个位置，写成四位二进制；亮着的灯是 1，代表 8、4、2 或 1。沿着文本拖动方框。",
      question: "一盏灯一盏灯地比较，哪个位置更像 7？",
      near: "8，就在旁边",
      far: "15，相隔八步",
      alike: "一样像",
      answer: "15：它与 7 只差一盏灯，8 与 7 四盏灯全不同。",
      fails: "但是相邻的位置也会相差到不能再差，而且每一位在 0 与 1 之间什么也没有。",
      leads: "那就让每一位平滑地转动，像钟的指针一样。",
      picture_label: "各位置的二进制位画成一列列的灯；{n} 写作 {written}。左右键沿文本移动。",
      apart_figure: "每个位置与 {n} 有几位不同？",
    },
  },
};
