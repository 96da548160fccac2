import { digits } from "#math/binary.js";

function compute({ count, position }) {
  const rows = Array.from({ length: 2 ** count }, (_, n) => Array.from(digits(n, count)));
  const apart = rows.map((row) => differing(row, rows[position]));
  const flips = rows.slice(1).map((row, n) => differing(row, rows[n]));
  return { rows, apart, flips };
}

const differing = (row, other) => row.reduce((sum, digit, i) => sum + Math.abs(digit - other[i]), 0);

/** As one writes numbers, the lowest digit last. */
export const written = (row) => [...row].reverse().join("");

function draw(stage, data, s, say) {
  const { rows, apart, flips } = data;
  const { position: n, count } = s;
  stage.heatmap("digits", {
    title: say("digits_figure"),
    rows: count, cols: rows.length, palette: "categorical", height: 40 + 26 * count,
    values: Array.from({ length: count }, (_, i) => rows.map((row) => row[count - 1 - i])),
    xLabel: say("position"), yLabel: say("digit"),
    rowLabel: (row) => String(2 ** (count - 1 - row)),
    pick: (_, position) => ({ position }), lit: [null, n],
  });
  const here = { marks: [{ x: n, label: say("here", { n }) }], pick: (position) => ({ position }), lit: n };
  stage.curves("apart", {
    title: say("apart_figure", { n }), half: true,
    x: apart.map((_, m) => m),
    series: [{ label: say("differ"), y: apart, color: "b" }],
    xLabel: say("position"), yLabel: say("differ"), ...here,
  });
  stage.curves("flips", {
    title: say("flips_figure"), half: true,
    x: flips.map((_, m) => m),
    series: [{ label: say("flip"), y: flips, color: "a" }],
    xLabel: say("position"), yLabel: say("flip"), ...here, lit: Math.min(n, flips.length - 1),
  });
  const mean = flips.reduce((sum, each) => sum + each, 0) / flips.length;
  stage.note(say("summary", { n, written: written(rows[n]), mean, most: Math.max(...flips) }));
}

const python = ({ count, position }) => `import posenc as pe
from posenc.analysis import measure

digits = measure.position_table(pe.Binary(${count}), 2**${count})
apart = (digits != digits[${position}]).sum(dim=-1)
flips = (digits[1:] != digits[:-1]).sum(dim=-1)
print("digits of ${position}, lowest first:", digits[${position}].tolist())
print("digits that differ from it:", apart.tolist())
print("digits that flip at each step:", flips.tolist())
`;

export const panel = {
  id: "binary",
  light: "position",
  lesson: "learn/integers_and_binary",
  uses: [],
  formula: [["digit_i = ⌊n / 2^i⌋ mod 2"]],
  text: {
    en: {
      title: "Binary digits",
      question: "Written with four digits, is position 8 nearer to 7 or to 0?",
      answer: "To 0: 1000 differs from 0000 in one digit, and from 0111 in all four.",
      more: "The lowest digit flips at every step, the next at every second, then at every fourth: about two in all, and at each power of two as many as there are.",
      count: "Digits",
      position: "Position n",
      digits_figure: "The digits of each position",
      digit: "worth of the digit",
      apart_figure: "How far is each position from {n}?",
      differ: "digits that differ",
      flips_figure: "How many digits flip on the way to the next position?",
      flip: "digits that flip",
      here: "n = {n}",
      summary: "{n} is written {written}. At a step {mean} digits flip on average, and {most} at most.",
    },
    zh: {
      title: "二进制位",
      question: "写成四位二进制，位置 8 离 7 近，还是离 0 近？",
      answer: "离 0 近：1000 与 0000 只差一位，与 0111 四位全不同。",
      more: "最低位每步翻转，下一位每两步翻转一次，再下一位每四步：平均每步约翻转两位，到了 2 的幂则一齐翻转。",
      count: "位数",
      position: "位置 n",
      digits_figure: "每个位置的各位",
      digit: "这一位的分量",
      apart_figure: "每个位置离 {n} 有多远？",
      differ: "不同的位数",
      flips_figure: "走到下一个位置，有几位翻转？",
      flip: "翻转的位数",
      here: "n = {n}",
      summary: "{n} 写作 {written}。每步平均翻转 {mean} 位，最多 {most} 位。",
    },
  },
  controls: [
    { id: "count", kind: "range", min: 2, max: 8, step: 1, value: 4 },
    { id: "position", kind: "range", min: 0, max: (s) => 2 ** s.count - 1, step: 1, value: 7, play: true },
  ],
  compute,
  draw,
  table: ({ rows, apart }) => ({
    head: ["position", "written", "digits_that_differ"],
    rows: rows.map((row, n) => [n, written(row), apart[n]]),
  }),
  python,
};
