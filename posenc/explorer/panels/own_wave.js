import { UserError } from "#core/errors.js";
import { short } from "#core/numbers.js";
import { waveFormula } from "#formulas/waves.js";
import { parse } from "#math/expression.js";
import { columnsBeyond, distinctRows, fall, innerProducts, largest, shiftResidual, through } from "#math/own_wave.js";
import { turnsPerToken, vector } from "#math/waveform.js";
import { waveInPython } from "#math/wave_python.js";

// By how many positions rows are moved, for the check of linear shift.
const STEP = 3;
const SHOWN = 96;

const waveOf = (s) => (s.source === "typed" ? parse(s.expression) : { run: through(s.points), points: s.points });

const trainedOn = (s) => Math.min(Math.max(s.length, 64), 512);

function span(from, to, step = 1) {
  return Array.from({ length: Math.ceil((to - from) / step) }, (_, i) => from + i * step);
}

function rowsOf(wave, s) {
  const turns = turnsPerToken(s.dims, { pairing: s.pairing, frequencies: s.frequencies, base: s.base });
  return (positions) =>
    positions.map((position) => {
      const row = vector(position, turns, wave.run, s.pairing);
      if (!row.every(Number.isFinite)) throw new UserError("no_value", { position });
      return row;
    });
}

function compute(s) {
  if (s.pairing === "mismatched" && s.frequencies === "one") throw new UserError("same_frequency");
  const wave = waveOf(s);
  const rowsAt = rowsOf(wave, s);
  const count = trainedOn(s);
  const rows = rowsAt(span(0, count));
  const later = rowsAt(span(count, 4 * count));
  const far = rowsAt(span(count, 64 * count, Math.floor(count / 16)));
  const x = span(0, 201).map((i) => i / 100);
  const y = x.map(wave.run);
  const { mean, spread } = innerProducts(rows.slice(0, 256));
  const checks = {
    distinct: distinctRows(rows),
    near: largest([...rows, y.filter(Number.isFinite)]),
    far: largest(far),
    residual: shiftResidual(rows, STEP),
    spread: mean[0] ? spread / mean[0] : 0,
    fall: fall(mean),
    beyond: columnsBeyond(rows, later),
  };
  const passed = {
    unique: checks.distinct === count,
    bounded: checks.far <= 1.05 * checks.near,
    shift_linear: checks.residual < 1e-9,
    relative: checks.spread < 1e-9,
    decay: checks.fall > 0.05,
    extrapolates: checks.beyond === 0,
  };
  return { count, x, y, rows, mean, checks, passed };
}

function verdicts({ count, checks, passed }, s, say) {
  const { distinct, near, far, residual, spread, beyond } = checks;
  const values = {
    unique: say("unique_value", { distinct, count }),
    bounded: say("bounded_value", { far, near, reach: 64 * count }),
    shift_linear: say("shift_value", { residual }),
    relative: say("relative_value", { spread }),
    decay: say("decay_value", { fall: checks.fall }),
    extrapolates: say("extrapolates_value", { beyond, dims: s.dims, count, longer: 4 * count }),
  };
  return Object.entries(values).map(([name, value]) => ({ label: say(name), passed: passed[name], value }));
}

function draw(stage, data, s, say) {
  const series = [{ label: say("wave"), y: data.y, width: 2 }];
  const title = say("wave_figure");
  stage.curves("wave", { title, x: data.x, series, xLabel: say("turns"), yLabel: say("amplitude") });
  stage.verdicts(verdicts(data, s, say));
  const rows = Math.min(data.count, SHOWN);
  stage.heatmap("table", {
    title: say("table_figure"),
    half: true,
    rows,
    cols: s.dims,
    values: data.rows.slice(0, rows),
    xLabel: say("dimension"),
    yLabel: say("position"),
    palette: "diverging",
    hover: (row, col) => `${say("position")} ${row}, ${say("dimension")} ${col}: ${short(data.rows[row][col])}`,
  });
  stage.curves("products", {
    title: say("products_figure"),
    half: true,
    x: data.mean.map((_, n) => n),
    series: [{ label: say("product"), y: data.mean }],
    xLabel: say("distance"),
    yLabel: say("product"),
  });
  stage.note(say("export_note", { functions: say("functions") }));
}

const python = (s) => waveInPython(waveOf(s), s, trainedOn(s), STEP);

export const panel = {
  id: "own_wave",
  lesson: "learn/waveforms",
  uses: (s) => (s.frequencies === "geometric" ? ["length", "base"] : ["length"]),
  formula: waveFormula,
  text: {
    en: {
      title: "Make your own wave",
      question: "Replace the sine by a triangle, sawtooth or square wave. Which of the six properties do you expect to lose first?",
      answer: "The linear shift, and the pure dependence on distance as well: only sine with its cosine moves on by a rotation, which keeps inner products.",
      more: "The formula exp(-t) keeps the linear shift and not the distance: a matrix moves it, but shrinks it too. The square wave, flat for half a turn, soon repeats rows as well.",
      source: "Wave from",
      typed: "a formula",
      drawn: "a drawn curve",
      expression: "Formula of t, in turns",
      points: "One turn of the wave, by pointer or arrow keys",
      pairing: "Pairing",
      quadrature: "in quadrature",
      single: "single waves",
      mismatched: "mismatched frequencies",
      frequencies: "Frequencies",
      geometric: "geometric, by the base",
      one: "one for all",
      dims: "Dimensions",
      wave: "wave(t)",
      wave_figure: "The wave over two turns",
      turns: "t (turns)",
      amplitude: "value",
      table_figure: "The table: one row per position",
      dimension: "dimension",
      position: "position",
      products_figure: "Inner product of two positions against their distance",
      product: "mean inner product",
      distance: "distance (tokens)",
      unique: "Unique",
      unique_value: "{distinct} of {count} rows differ",
      bounded: "Bounded",
      bounded_value: "largest number {far} up to position {reach}, {near} in training",
      shift_linear: "Linear shift",
      shift_value: "a matrix per pair misses the row 3 positions on by {residual} of its size",
      relative: "Relative",
      relative_value: "products at one distance differ by {spread}",
      decay: "Falls with distance",
      decay_value: "near products exceed far ones by {fall}",
      extrapolates: "Extrapolates",
      extrapolates_value: "{beyond} of {dims} columns leave the range of the first {count} positions before {longer}",
      export_note: "Copy as Python gives a posenc encoding that runs. In a formula you may use {functions}.",
      functions: "t, pi, e, + - * / % ^, sin, cos, tan, tanh, exp, log, sqrt, abs, sign, floor, ceil, frac, min, max, square, triangle, sawtooth",
      unexpected: "The formula cannot be read at character {at}: “{found}” does not fit there.",
      ends_early: "The formula ends too early: an operand or a closing bracket is missing.",
      too_deep: "The formula nests more than {most} levels deep. Use fewer brackets.",
      too_long: "The formula is longer than {most} characters. Shorten it.",
      number_too_large: "The number {found} is too large.",
      unknown_name: "“{name}” is not known. Known are t, pi, e and {known}.",
      arguments: "{name} takes {needed} argument(s), but got {given}.",
      empty_formula: "The formula is empty. Try sin(2*pi*t).",
      no_variable: "The formula does not contain t, so every position would get the same number.",
      not_finite: "A constant part of the formula is not a finite number, such as 1/0 or log(0).",
      no_value: "The wave has no finite value at position {position}.",
      same_frequency: "With one frequency for all, no pair can be mismatched. Choose geometric frequencies.",
    },
    zh: {
      title: "自制波形",
      question: "把正弦换成三角波、锯齿波或方波，六条性质中你猜最先失去哪一条？",
      answer: "线性平移，同时还有“只看距离”：只有正弦配上余弦，才是用旋转走到下一个位置，而旋转不改变内积。",
      more: "公式 exp(-t) 保住了线性平移，却不是“只看距离”：一个矩阵就能移动它，但也把它缩小。方波半圈不变，很快还会出现相同的行。",
      source: "波形来源",
      typed: "公式",
      drawn: "手画曲线",
      expression: "关于 t 的公式（t 以圈为单位）",
      points: "画出一圈的波形（鼠标或方向键）",
      pairing: "配对方式",
      quadrature: "正交（相差四分之一圈）",
      single: "只有一个波",
      mismatched: "频率错配",
      frequencies: "频率",
      geometric: "几何级数，由基数决定",
      one: "全部相同",
      dims: "维数",
      wave: "wave(t)",
      wave_figure: "两圈之内的波形",
      turns: "t（圈）",
      amplitude: "取值",
      table_figure: "编码表：每行一个位置",
      dimension: "维度",
      position: "位置",
      products_figure: "两个位置的内积随距离的变化",
      product: "内积均值",
      distance: "距离（词元）",
      unique: "唯一",
      unique_value: "{count} 行中有 {distinct} 行互不相同",
      bounded: "有界",
      bounded_value: "到位置 {reach} 为止最大为 {far}，训练范围内为 {near}",
      shift_linear: "线性平移",
      shift_value: "每对维度用一个矩阵推算后 3 个位置，误差占 {residual}",
      relative: "只看距离",
      relative_value: "同一距离的内积相差 {spread}",
      decay: "随距离衰减",
      decay_value: "近处内积比远处高 {fall}",
      extrapolates: "可外推",
      extrapolates_value: "在位置 {longer} 之前，{dims} 列中有 {beyond} 列超出了前 {count} 个位置的取值范围",
      export_note: "“复制为 Python”会给出一个能直接运行的 posenc 编码类。公式里可以使用 {functions}。",
      functions: "t、pi、e、+ - * / % ^、sin、cos、tan、tanh、exp、log、sqrt、abs、sign、floor、ceil、frac、min、max、square、triangle、sawtooth",
      unexpected: "公式在第 {at} 个字符处读不懂：“{found}”不应出现在这里。",
      ends_early: "公式没有写完：缺少运算对象或右括号。",
      too_deep: "公式嵌套超过 {most} 层，请减少括号。",
      too_long: "公式超过 {most} 个字符，请缩短。",
      number_too_large: "数字 {found} 太大。",
      unknown_name: "不认识“{name}”。可用的有 t、pi、e 以及 {known}。",
      arguments: "{name} 需要 {needed} 个参数，但给了 {given} 个。",
      empty_formula: "公式是空的。可以试试 sin(2*pi*t)。",
      no_variable: "公式里没有 t，每个位置都会得到同一个数。",
      not_finite: "公式的常数部分不是有限的数，例如 1/0 或 log(0)。",
      no_value: "波形在位置 {position} 处没有有限值。",
      same_frequency: "所有频率都相同时无法错配，请选择几何级数。",
    },
  },
  controls: [
    { id: "source", kind: "select", options: ["typed", "drawn"], value: "typed" },
    { id: "expression", kind: "text", value: "sin(2*pi*t)", show: (s) => s.source === "typed" },
    {
      id: "points", kind: "sketch", points: 16, show: (s) => s.source === "drawn",
      value: [0, 0.5, 1, 1, 1, 0.5, 0.25, 0.1, 0, -0.5, -1, -1, -1, -0.5, -0.25, -0.1],
    },
    { id: "pairing", kind: "select", options: ["quadrature", "single", "mismatched"], value: "quadrature" },
    { id: "frequencies", kind: "select", options: ["geometric", "one"], value: "geometric" },
    { id: "dims", kind: "range", min: 2, max: 32, step: 2, value: 16 },
  ],
  compute,
  draw,
  table(data) {
    const head = ["position", ...Array.from(data.rows[0], (_, j) => `p${j}`)];
    return { head, rows: data.rows.map((row, n) => [n, ...row]) };
  },
  python,
};
