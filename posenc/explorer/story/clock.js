import { foot } from "#core/axis.js";
import { label } from "#core/label.js";
import { turning } from "#core/turning.js";
import { digits } from "#math/binary.js";
import { panel } from "#panels/clock.js";

const ROWS = 16;
const TURN = 2 * Math.PI;

/** Where things stand in a picture of this width: dials above the columns of their digits. */
function layout(width, count) {
  const narrow = width < 520;
  const left = narrow ? 26 : 40;
  const right = width - (narrow ? 110 : 190);
  const each = (right - left) / count;
  const radius = Math.floor(Math.min(each * 0.42, narrow ? 26 : 46));
  const dials = 22 + radius;
  const top = dials + radius + 16;
  const row = narrow ? 15 : 16;
  return {
    narrow, left, right, each, radius, dials, top, row,
    height: top + ROWS * row + 38,
    // The lowest digit stands on the right, as one writes numbers.
    x: (i) => right - (i + 0.5) * each,
    y: (n) => top + ((n % ROWS) + 0.5) * row,
  };
}

/** What the pointer takes: a hand, which turns all others with it, or the row of the position. */
function grab(data, s) {
  return (x, y, width) => {
    const at = layout(width, s.count);
    const dial = data.periods.findIndex((_, i) => Math.hypot(x - at.x(i), y - at.dials) < at.radius + 5);
    if (dial >= 0) {
      const position = turning([at.x(dial), at.dials], [x, y], s.position, data.periods[dial]);
      return (...to) => ({ position: Math.round(position(...to)) });
    }
    const beside = x < at.left && y > at.top;
    if (!beside && (x > at.right || Math.abs(y - at.y(s.position)) > 14)) return null;
    const first = s.position - (s.position % ROWS);
    return (_, to) => ({ position: first + Math.min(Math.max(Math.floor((to - at.top) / at.row), 0), ROWS - 1) });
  };
}

function draw(stage, data, s, say) {
  const { height } = layout(stage.width, s.count);
  const written = [...data.digits].reverse().join("");
  stage.paint(
    "clocks",
    {
      height, grab: grab(data, s), steps: { x: "position" },
      label: say("picture_label", { n: s.position, written }),
    },
    (ctx, width, _, colors) => {
      const at = layout(width, s.count);
      data.hands.forEach((turns, i) => dial(ctx, turns, data.periods[i], [at.x(i), at.dials], at, colors));
      rows(ctx, s, at, colors);
      steps(ctx, data, s, at, width, colors, say);
    },
  );
}

/** A hand in the shaded half of its dial stands for a 1. */
function dial(ctx, turns, period, [x, y], { radius, narrow }, colors) {
  const angle = TURN * turns - Math.PI / 2;
  const tip = [x + radius * Math.cos(angle), y + radius * Math.sin(angle)];
  ctx.fillStyle = colors.grid;
  ctx.beginPath();
  ctx.arc(x, y, radius, Math.PI / 2, 1.5 * Math.PI);
  ctx.fill();
  ctx.strokeStyle = colors.muted;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, TURN);
  ctx.stroke();
  ctx.strokeStyle = ctx.fillStyle = colors.a;
  ctx.lineWidth = 3;
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(...tip);
  ctx.stroke();
  ctx.beginPath();
  ctx.arc(...tip, narrow ? 4 : 6, 0, TURN);
  ctx.fill();
  label(ctx, String(period), [x, 9], colors.muted, { size: 12 });
}

/** The digits of sixteen positions, each below its dial. */
function rows(ctx, { position, count }, at, colors) {
  const first = position - (position % ROWS);
  for (let n = first; n < first + ROWS; n += 1) {
    const lit = n === position;
    const style = { size: at.narrow ? 12 : 13, weight: lit ? "600" : "400" };
    label(ctx, String(n), [at.left - 6, at.y(n)], lit ? colors.accent : colors.muted, { ...style, align: "right" });
    digits(n, count).forEach((digit, i) => label(ctx, String(digit), [at.x(i), at.y(n)], digit ? colors.b : colors.muted, style));
  }
  ctx.strokeStyle = colors.accent;
  ctx.lineWidth = 2;
  ctx.strokeRect(1, at.y(position) - at.row / 2, at.right - 2, at.row);
}

/** How far apart each row and the next are, by their digits and, once told, by the tips of their hands. */
function steps(ctx, { digitSteps, handStep, first }, { position, told }, at, width, colors, say) {
  const from = at.right + 12;
  const unit = (width - from - 8) / handStep;
  const base = position - (position % ROWS) - first;
  const style = { size: 12, align: "left" };
  label(ctx, say("step"), [from, at.dials - 20], colors.muted, style);
  label(ctx, say("digits"), [from, at.dials], colors.b, { ...style, weight: "600" });
  label(ctx, told ? say("tips") : say("tips_unknown"), [from, at.dials + 20], colors.a, { ...style, weight: "600" });
  for (let n = 0; n < ROWS - 1; n += 1) {
    ctx.fillStyle = colors.b;
    ctx.fillRect(from, at.y(n) + at.row / 2 - 5, digitSteps[base + n] * unit, 5);
    ctx.fillStyle = colors.a;
    if (told) ctx.fillRect(from, at.y(n) + at.row / 2, handStep * unit, 5);
  }
  const marks = [0, 1, 2].map((distance) => [distance, from + distance * unit]);
  foot(ctx, { left: from, width: handStep * unit, y: at.top + ROWS * at.row }, marks, say("distance"), colors);
}

export const chapter = {
  id: "clock",
  panel,
  holds: { length: ROWS, count: 4 },
  controls: ["position"],
  formula: ({ told }) => [
    [
      "digit_i = ⌊#accent{n} / 2^i⌋ mod 2", "hand_i = {#accent{n}}/{2^{i+1}} turns",
      ...(told ? ["{|p_{n+1} - p_n|}^2 = ∑_i (2 - 2 cos {2 π}/{2^{i+1}})"] : []),
    ],
  ],
  predict: { options: ["twice", "little", "same"], right: () => "same", at: 7 },
  draw,
  text: {
    en: {
      title: "Clock hands",
      lead: "Above each digit a hand turns once in 2, 4, 8 or 16 words. The digit is a 1 while its hand is in the shaded half. Turn a hand, or drag the framed row.",
      question: "From 0 to 1 one digit flips, from 7 to 8 all four: that step is twice as long (√4 against √1). How long is it for the four hands, by the distance between their tips?",
      twice: "Twice as long",
      little: "A little longer",
      same: "As long as from 0 to 1",
      answer: "As long as from 0 to 1, and as every other step: each hand turns by its own angle, wherever it stands. Digits jump because each says only in which half its hand is.",
      fails: "But an angle written as a number still jumps once a turn: 359° and 1° are neighbours, and as numbers far apart.",
      leads: "So write down where the tip of the hand is, its height to begin with.",
      step: "to the next row",
      digits: "digits: √flips",
      tips: "tips of hands",
      tips_unknown: "tips: ?",
      distance: "distance",
      picture_label: "Clock hands at position {n}, above its binary digits {written} and those of its neighbours. Left and right move along the text.",
    },
    zh: {
      title: "钟的指针",
      lead: "每一位上方有一根指针，每 2、4、8 或 16 个词转一圈。指针在阴影那一半时，这一位是 1。转动指针，或拖动方框里的那一行。",
      question: "从 0 到 1 翻转一位，从 7 到 8 四位全翻，这一步是前者的两倍长（√4 比 √1）。对四根指针来说，按针尖移动的距离算，这一步有多长？",
      twice: "也是两倍",
      little: "稍长一点",
      same: "与从 0 到 1 一样长",
      answer: "与从 0 到 1 一样长，每一步都一样：不论在哪个位置，每根指针每步都转过自己的那个角度。二进制会跳，是因为每一位只说指针在哪一半。",
      fails: "但是把角度写成一个数，每圈仍要跳一次：359° 与 1° 紧挨着，作为数却相差很远。",
      leads: "那就写下针尖在哪里，先只写它的高度。",
      step: "到下一行",
      digits: "位：√翻转数",
      tips: "针尖",
      tips_unknown: "针尖：？",
      distance: "距离",
      picture_label: "位置 {n} 处的指针，下面是它的二进制 {written} 以及相邻位置的二进制。左右键沿文本移动。",
    },
  },
};
