import { short } from "#core/numbers.js";
import { digits } from "#math/binary.js";
import { inverseFrequencies } from "#math/frequencies.js";
import { waves } from "#math/waveform.js";

const ROWS = 64;

/** Tokens per turn of each hand: those of binary digits, 2, 4, 8, ..., or of a sinusoid. */
function periods({ count, speeds, base }) {
  if (speeds === "digits") return Array.from({ length: count }, (_, i) => 2 ** (i + 1));
  return Array.from(inverseFrequencies(2 * count, base), (w) => (2 * Math.PI) / w);
}

function compute(s) {
  const { count, position } = s;
  const turn = periods(s);
  const first = position - (position % ROWS);
  const rows = Array.from({ length: ROWS }, (_, n) => {
    if (s.wave === "binary") return Array.from(digits(first + n, count));
    return turn.map((period) => waves[s.wave]((first + n) / period));
  });
  // The hands all turn by the same angles from each position to the next.
  const handStep = Math.sqrt(turn.reduce((sum, period) => sum + 2 - 2 * Math.cos((2 * Math.PI) / period), 0));
  const flips = Array.from({ length: ROWS }, (_, n) => flipped(first + n, count));
  return {
    first,
    periods: turn,
    hands: turn.map((period) => (position / period) % 1),
    digits: Array.from(digits(position, count)),
    flips: flips[position - first],
    digitSteps: flips.map(Math.sqrt),
    handStep,
    rows,
  };
}

function flipped(position, count) {
  const [before, after] = [digits(position, count), digits(position + 1, count)];
  return before.reduce((sum, digit, i) => sum + Math.abs(digit - after[i]), 0);
}

function drawDials(ctx, width, height, colors, data) {
  const count = data.hands.length;
  const cell = width / count;
  const radius = Math.min(cell * 0.42, height / 2 - 34);
  ctx.textAlign = "center";
  ctx.font = "13px sans-serif";
  data.hands.forEach((turns, i) => {
    // The lowest digit stands on the right, as one writes numbers.
    const [x, y] = [width - cell * (i + 0.5), radius + 22];
    const angle = 2 * Math.PI * turns - Math.PI / 2;
    ctx.fillStyle = colors.grid;
    ctx.beginPath();
    ctx.arc(x, y, radius, Math.PI / 2, (3 * Math.PI) / 2);
    ctx.fill();
    ctx.strokeStyle = colors.muted;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, 2 * Math.PI);
    ctx.stroke();
    ctx.strokeStyle = colors.a;
    ctx.lineWidth = 3;
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
    ctx.stroke();
    ctx.fillStyle = colors.muted;
    ctx.fillText(short(Number(data.periods[i].toPrecision(3))), x, 14);
    ctx.fillStyle = turns >= 0.5 ? colors.b : colors.ink;
    ctx.font = "bold 18px sans-serif";
    ctx.fillText(turns >= 0.5 ? "1" : "0", x, y + radius + 24);
    ctx.font = "13px sans-serif";
  });
}

function draw(stage, data, s, say) {
  const { first, flips, handStep } = data;
  const written = [...data.digits].reverse().join("");
  const label = say("dials_label", { position: s.position, written });
  const title = say("dials_figure", { position: s.position });
  stage.paint("dials", { title, height: 150, label }, (ctx, width, height, colors) =>
    drawDials(ctx, width, height, colors, data),
  );
  stage.note(say("summary", { position: s.position, next: s.position + 1, written, flips, step: handStep }));
  stage.heatmap("table", {
    title: say("table_figure"),
    half: true,
    rows: ROWS,
    cols: s.count,
    values: data.rows,
    xLabel: say("hand"),
    yLabel: say("position_from", { first }),
    rowLabel: (row) => String(first + row),
    palette: s.wave === "binary" ? "categorical" : "diverging",
    hover: (row, col) => say("cell_at", { position: first + row, hand: col, value: data.rows[row][col] }),
  });
  stage.curves("steps", {
    title: say("steps_figure"),
    half: true,
    x: data.digitSteps.map((_, n) => first + n),
    series: [
      { label: say("digits"), y: data.digitSteps, color: "b" },
      { label: say("hands"), y: data.digitSteps.map(() => handStep), color: "a", width: 2.5 },
    ],
    xLabel: say("position"),
    yLabel: say("step"),
    marks: [{ x: s.position, label: say("here") }],
  });
}

function python(s) {
  const hands = `frequencies=[2 * math.pi / period for period in periods]`;
  const table =
    s.wave === "binary"
      ? "digits"
      : `measure.position_table(\n    pe.Waveform(${s.count}, wave="${s.wave}", pairing="single", ${hands}), at\n)`;
  const turn =
    s.speeds === "digits"
      ? `[2 ** (i + 1) for i in range(${s.count})]`
      : `[2 * math.pi * ${s.base} ** (i / ${s.count}) for i in range(${s.count})]`;
  return `import math

import torch
import posenc as pe
from posenc.analysis import measure

position = ${s.position}
at = position - position % ${ROWS} + torch.arange(${ROWS} + 1)
periods = ${turn}
print("turns of the hands:", [round(position / period % 1, 4) for period in periods])
digits = torch.stack([at // 2**i % 2 for i in range(${s.count})], dim=-1).double()
table = ${table}
print(table[position % ${ROWS}].tolist())
hands = measure.position_table(pe.Waveform(${2 * s.count}, ${hands}), at)
print("step of the digits:", measure.resolution(digits)[position % ${ROWS}].item())
print("step of the hands:", measure.resolution(hands)[position % ${ROWS}].item())
`;
}

export const panel = {
  id: "clock",
  light: "position",
  lesson: "learn/integers_and_binary",
  uses: (s) => (s.speeds === "geometric" ? ["length", "base"] : ["length"]),
  formula: ({ speeds, count }) => {
    const period = speeds === "digits" ? "2^{i+1}" : `2 π base^{2i/${2 * count}}`;
    return [["digit_i = ⌊n / 2^i⌋ mod 2", "hand_i = {n}/{period_i} turns", `period_i = ${period}`]];
  },
  text: {
    en: {
      title: "Binary digits and clock hands",
      question: "From position 7 to 8 the clocks go on as at every step. How many binary digits flip?",
      answer: "All four flip, 0111 to 1000, because a digit says only in which half of the dial its hand is.",
      more: "The hands together make the same step everywhere; digits jump, now one of them, now all at once.",
      position: "Position n",
      count: "Digits, or hands",
      speeds: "Speeds of the hands",
      digits: "binary digits",
      geometric: "a sinusoid's, by the base",
      wave: "Table of",
      binary: "binary digits",
      sine: "sine",
      triangle: "triangle wave",
      square: "square wave",
      sawtooth: "sawtooth",
      dials_figure: "Hands at position {position}; above each, tokens per turn",
      dials_label: "Clock hands at position {position}, whose binary digits are {written}",
      summary: "The lowest binary digits of {position} are {written}. On the way to {next}, {flips} of them flip; the hands together move by {step}.",
      table_figure: "One row per position",
      hand: "digit or hand, the fastest first",
      position_from: "position, from {first}",
      cell_at: "position {position}, hand {hand}: {value}",
      steps_figure: "How far apart are neighbours? |p(n + 1) - p(n)|",
      hands: "clock hands (sine and cosine)",
      step: "step",
      here: "n",
    },
    zh: {
      title: "二进制与钟表指针",
      question: "从位置 7 到 8，钟表的指针照常前进一步。有几个二进制位翻转？",
      answer: "四个位全部翻转，0111 变成 1000，因为每个位只说明指针在表盘的哪一半。",
      more: "所有指针合起来，处处走同样的一步；二进制位则是跳变，有时只翻一个，有时一齐翻转。",
      position: "位置 n",
      count: "位数（指针数）",
      speeds: "指针的转速",
      digits: "二进制位",
      geometric: "正弦编码的频率，由基数决定",
      wave: "下表显示",
      binary: "二进制位",
      sine: "正弦",
      triangle: "三角波",
      square: "方波",
      sawtooth: "锯齿波",
      dials_figure: "位置 {position} 处的指针；上方是转一圈所需的词元数",
      dials_label: "位置 {position} 处的钟表指针，二进制写作 {written}",
      summary: "{position} 的最低几个二进制位是 {written}。走到 {next} 时有 {flips} 个位翻转；所有指针合起来只移动 {step}。",
      table_figure: "每行一个位置",
      hand: "位或指针，最快的在前",
      position_from: "位置，从 {first} 起",
      cell_at: "位置 {position}，第 {hand} 根指针：{value}",
      steps_figure: "相邻位置相距多远？|p(n + 1) - p(n)|",
      hands: "钟表指针（正弦与余弦）",
      step: "步长",
      here: "n",
    },
  },
  controls: [
    { id: "position", kind: "range", min: 0, max: (s) => s.length - 1, step: 1, value: 7, play: true },
    { id: "count", kind: "range", min: 2, max: 14, step: 1, value: 8 },
    { id: "speeds", kind: "select", options: ["digits", "geometric"], value: "digits" },
    { id: "wave", kind: "select", options: ["binary", "sine", "triangle", "square", "sawtooth"], value: "binary" },
  ],
  compute,
  draw,
  table(data) {
    const head = ["position", ...data.periods.map((_, i) => `column ${i}`)];
    return { head, rows: data.rows.map((row, n) => [data.first + n, ...row]) };
  },
  python,
};
