import { inverseFrequencies } from "#math/frequencies.js";
import { dtypes } from "#math/precision.js";

// More positions than these are sampled.
const POINTS = 4096;
const HALF_A_RADIAN = 0.5;
// Half of the last bit that is kept, as a power of two of the number that is rounded.
const BITS = { bfloat16: 8, float16: 11, float32: 24 };
const ERRORS = {
  positions: "error = |round(n) w_i - n w_i|",
  frequencies: "error = |n round(w_i) - n w_i|",
  angles: "error = |round(n w_i) - n w_i|",
  table: "error = max(|round(cos(n w_i)) - cos(n w_i)|, |round(sin(n w_i)) - sin(n w_i)|)",
};

/** What is computed of a pair at a position once one of its parts is rounded, and what is right. */
const rounded = {
  positions: (p, w, round) => [round(p) * w, p * w],
  frequencies: (p, w, round) => [p * round(w), p * w],
  angles: (p, w, round) => [round(p * w), p * w],
};

function tableError(p, w, round) {
  const angle = p * w;
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  return Math.max(Math.abs(round(cos) - cos), Math.abs(round(sin) - sin));
}

function errorOf(what, p, w, round) {
  if (what === "table") return tableError(p, w, round);
  const [found, right] = rounded[what](p, w, round);
  return Math.abs(found - right);
}

/** Positions 0 .. reach - 1, or so many of them, the last included. */
function sampled(reach) {
  const count = Math.min(reach, POINTS);
  return Array.from({ length: count }, (_, i) => Math.floor((i * (reach - 1)) / Math.max(count - 1, 1)));
}

/** How many of the positions 0 .. reach - 1 stay apart, and the first that equals the one before. */
function distinctPositions(reach, round) {
  let [count, first, last] = [1, null, round(0)];
  for (let p = 1; p < reach; p++) {
    const value = round(p);
    if (value !== last) count += 1;
    else first ??= p;
    last = value;
  }
  return { count, first };
}

function compute(s) {
  const round = dtypes[s.dtype];
  const inverse = inverseFrequencies(s.d, s.base);
  const x = sampled(s.reach);
  const pairs = [...new Set([0, 1 / 4, 1 / 2, 3 / 4, 1].map((part) => Math.round(part * (inverse.length - 1))))];
  const worst = { error: 0, pair: 0, position: 0 };
  const errors = Array.from(inverse, (w, pair) => {
    let most = 0;
    for (const p of x) {
      const error = errorOf(s.what, p, w, round);
      if (error > most) most = error;
      if (error > worst.error) Object.assign(worst, { error, pair, position: p });
    }
    return most;
  });
  const series = pairs.map((pair) => {
    let most = 0;
    return { pair, y: x.map((p) => (most = Math.max(most, errorOf(s.what, p, inverse[pair], round)))) };
  });
  const lost = s.what === "table" ? null : errors.filter((error) => error > HALF_A_RADIAN).length;
  return { x, series, errors, worst, lost, pairs: inverse.length, ...distinctPositions(s.reach, round) };
}

const shown = (values) => values.map((value) => (value > 0 && Number.isFinite(value) ? value : null));

function draw(stage, data, s, say) {
  const unit = say(s.what === "table" ? "value_error" : "angle_error");
  stage.curves("by_position", {
    title: say("by_position"),
    x: data.x,
    series: data.series.map(({ pair, y }) => ({
      // A logarithmic axis has no place for an error of zero.
      label: say(y.some(Boolean) ? "pair_n" : "pair_exact", { pair }),
      y: shown(y),
    })),
    xLabel: say("position"),
    yLabel: unit,
    logY: true,
  });
  stage.curves("by_pair", {
    title: say("by_pair"),
    x: data.errors.map((_, pair) => pair),
    series: [{ label: say("worst"), y: shown(data.errors), color: "b", width: 2.25 }],
    xLabel: say("pair"),
    yLabel: unit,
    logY: true,
  });
  const { worst } = data;
  stage.table(
    [say("what_found"), say("value")],
    [
      [say("worst_error"), worst.error],
      [say("worst_at"), say("at_pair", { pair: worst.pair, position: worst.position })],
      ...(data.lost === null ? [] : [[say("lost"), say("of", { count: data.lost, all: data.pairs })]]),
      [say("distinct"), say("of", { count: data.count, all: s.reach })],
      [say("first_equal"), data.first ?? say("never")],
    ],
  );
  if (data.x.length < s.reach) stage.note(say("sampled", { count: data.x.length, all: s.reach }));
}

function python(s) {
  const dtype = `torch.${s.dtype}`;
  const lines = {
    positions: ["found = positions.to(dtype).double()[:, None] * inverse"],
    frequencies: ["found = positions[:, None] * inverse.to(dtype).double()"],
    angles: ["found = (positions[:, None] * inverse).to(dtype).double()"],
    table: [
      "right = torch.stack((right.cos(), right.sin()))",
      "found = right.to(dtype).double()",
    ],
  };
  return [
    "import torch",
    "import posenc as pe",
    "from posenc.analysis import measure",
    "",
    `dtype, reach = ${dtype}, ${s.reach}`,
    `inverse = measure.frequencies(pe.Rotary(${s.d}, ${s.base}))[0]`,
    `positions = torch.tensor([i * (reach - 1) // max(min(reach, ${POINTS}) - 1, 1) for i in range(min(reach, ${POINTS}))])`,
    "positions = positions.double()",
    "right = positions[:, None] * inverse",
    ...lines[s.what],
    "error = (found - right).abs()",
    'print("worst error", error.max().item())',
    'print("worst of each pair", error.flatten(end_dim=-2).amax(dim=0))',
    "every = torch.arange(reach, dtype=torch.float64).to(dtype)",
    'print("distinct positions", len(every.double().unique()), "of", reach)',
    "",
  ].join("\n");
}

export const panel = {
  id: "precision",
  lesson: "learn/rotary",
  uses: ["d", "base"],
  formula: ({ what, dtype, lang }) => {
    const where = { en: `(${dtype}, normal x)`, zh: `（${dtype}，x 为正规数）` }[lang];
    return [[ERRORS[what], `|round(x) - x| ≤ 2^{-${BITS[dtype]}} |x|`, `"${where}"`]];
  },
  text: {
    en: {
      title: "Numbers break",
      question: "A model runs in bfloat16. Up to which position can it still count its tokens one by one?",
      answer: "Up to 256: bfloat16 has 8 significant bits, so 257 becomes 256.",
      more: "Inverse frequencies rounded once are worse than they look, for the error grows with the position. Only the finished table of cosines and sines may be rounded: its error never grows.",
      dtype: "Number format",
      bfloat16: "bfloat16: 8 bits kept",
      float16: "float16: 11 bits kept",
      float32: "float32: 24 bits kept",
      what: "What is rounded",
      positions: "the positions",
      frequencies: "the inverse frequencies",
      angles: "the angles",
      table: "the finished table of cosines and sines",
      reach: "Positions up to",
      by_position: "Largest error up to each position, for five of the pairs",
      sampled: "The figures take {count} positions, evenly spread over {all}.",
      by_pair: "Worst error of each pair",
      pair: "pair",
      pair_n: "pair {pair}",
      pair_exact: "pair {pair}: exact, nothing to draw",
      position: "position",
      angle_error: "error of the angle (radians)",
      value_error: "error of cosine and sine",
      worst: "worst error",
      what_found: "found",
      value: "value",
      worst_error: "worst error",
      worst_at: "where",
      at_pair: "pair {pair}, position {position}",
      lost: "pairs that are off by more than half a radian",
      of: "{count} of {all}",
      distinct: "positions that stay apart when rounded",
      first_equal: "first position that equals the one before",
      never: "none",
    },
    zh: {
      title: "数值会出错",
      question: "模型以 bfloat16 运行。它最多能把词元逐个数到第几个位置？",
      answer: "数到 256 为止：bfloat16 只有 8 位有效二进制位，257 会变成 256。",
      more: "频率只舍入一次，看似无害，误差却随位置不断放大。可以舍入的只有算好的余弦、正弦表：它的误差不会增长。",
      dtype: "数值格式",
      bfloat16: "bfloat16（8 位有效位）",
      float16: "float16（11 位有效位）",
      float32: "float32（24 位有效位）",
      what: "舍入的对象",
      positions: "位置",
      frequencies: "频率",
      angles: "角度",
      table: "算好的余弦、正弦表",
      reach: "最大位置",
      by_position: "到每个位置为止的最大误差（取其中五对）",
      sampled: "图中从 {all} 个位置里均匀取了 {count} 个。",
      by_pair: "每一对的最大误差",
      pair: "维度对",
      pair_n: "第 {pair} 对",
      pair_exact: "第 {pair} 对：没有误差，无曲线",
      position: "位置",
      angle_error: "角度误差（弧度）",
      value_error: "余弦与正弦的误差",
      worst: "最大误差",
      what_found: "结果",
      value: "取值",
      worst_error: "最大误差",
      worst_at: "出现在",
      at_pair: "第 {pair} 对，位置 {position}",
      lost: "误差超过半弧度的维度对",
      of: "{all} 中的 {count}",
      distinct: "舍入后仍互不相同的位置",
      first_equal: "第一个与前一位置相同的位置",
      never: "没有",
    },
  },
  controls: [
    { id: "dtype", kind: "select", options: ["bfloat16", "float16", "float32"], value: "bfloat16" },
    {
      id: "what", kind: "select", value: "positions",
      options: ["positions", "frequencies", "angles", "table"],
    },
    { id: "reach", kind: "range", min: 2, max: 1_000_000, step: 1, value: 4096, scale: "log" },
  ],
  compute,
  draw,
  table({ x, series, errors }) {
    const head = ["position", ...series.map(({ pair }) => `error_of_pair_${pair}`), "pair", "worst_error"];
    const rows = Array.from({ length: Math.max(x.length, errors.length) }, (_, i) => {
      const found = i < x.length ? [x[i], ...series.map(({ y }) => y[i])] : Array(series.length + 1).fill(null);
      return [...found, ...(i < errors.length ? [i, errors[i]] : [null, null])];
    });
    return { head, rows };
  },
  python,
};
