import { reads } from "#core/reads.js";
import { catalogue, make, python as constructed } from "#math/catalogue.js";
import { positionCurves, scoreCurves } from "#math/curves.js";
import { fixed } from "#math/fixed.js";
import { cosineSum } from "#math/frequencies.js";
import { needExact } from "#math/tables.js";
import { ones } from "#math/vectors.js";

const POINTS = 2048;
const PAIR_POINTS = 512;
// Draws that differ by less are drawn as one line.
const SAME = 1e-9;

/** All distances below length, or so many of them, evenly spread. */
function distances(length, most) {
  const step = Math.max(1, Math.ceil(length / most));
  return Array.from({ length: Math.ceil(length / step) }, (_, i) => i * step);
}

/** Draws of one query and one key; numbers of mean 0 and variance 1, the same on every machine. */
function drawsOf(s, d) {
  const drawn = (n) => fixed(d, n * d, Math.SQRT2);
  return Array.from({ length: s.draws }, (_, n) =>
    s.vectors === "equal" ? { q: drawn(n), k: drawn(n) } : { q: drawn(2 * n), k: drawn(2 * n + 1) },
  );
}

// Relative encodings: the last query, and keys ever farther back.
function relativeCurves(encoding, s, x) {
  const token = ones(encoding, s.d);
  const draws = s.vectors === "ones" ? [{ q: token, k: token }] : drawsOf(s, token.length);
  const head = Math.min(s.head, (encoding.heads ?? 1) - 1);
  const scale = token.length ** -0.5;
  const query = Math.min(s.length, encoding.reach ?? Infinity) - 1;
  return scoreCurves(encoding, draws, { query, distances: x, head, scale });
}

// Absolute encodings: pairs of positions at each distance, `draws` of them along the input.
function absoluteCurves(encoding, s, distances) {
  const reach = Math.min(s.length, encoding.reach ?? Infinity);
  const words = s.vectors === "ones" ? Array(s.draws).fill({}) : drawsOf(s, encoding.columns);
  return positionCurves(encoding, words, { reach, distances, scale: encoding.columns ** -0.5 });
}

const finite = (value) => (Number.isFinite(value) ? value : null);

/** Mean, least and greatest at each distance, less what they are at distance 0 where asked. */
function summary(name, s, x) {
  if (s.vectors !== "ones") needExact(name, s.lang);
  const encoding = make(name, s);
  const curves = (encoding.vector ? absoluteCurves : relativeCurves)(encoding, s, x);
  const moved = curves.map((curve) => curve.map((value) => value - (s.drop ? curve[0] : 0)));
  const over = (reduce) => moved.reduce((one, two) => one.map((value, n) => reduce(value, two[n])));
  const mean = over((sum, value) => sum + value).map((sum) => finite(sum / moved.length));
  const low = over(Math.min).map(finite);
  const high = over(Math.max).map(finite);
  return { name, mean, low, high, inverse: encoding.inverse ?? null, spread: spreadOf(low, high) };
}

function spreadOf(low, high) {
  return Math.max(0, ...low.map((value, n) => (value === null ? 0 : high[n] - value)));
}

/** What each pair of A brings, cos(w n), and the mean of the first of them; null where nothing turns. */
function pairsOf(inverse, s) {
  if (inverse === null) return null;
  const x = distances(s.length, PAIR_POINTS);
  const values = new Float64Array(inverse.length * x.length);
  inverse.forEach((w, i) => x.forEach((n, j) => (values[i * x.length + j] = Math.cos(w * n))));
  const first = inverse.subarray(0, s.summed);
  const mean = x.map((n) => cosineSum(first, n) / first.length);
  return { rows: inverse.length, x, values, count: first.length, mean };
}

/** Which of the places of x is nearest to the distance that is lit. */
const litOf = (x, s) => Math.min(Math.round(s.lit / (x[1] ?? 1)), x.length - 1);

function compute(s) {
  const x = distances(s.length, POINTS);
  const a = summary(s.a, s, x);
  const b = s.b === s.a ? null : summary(s.b, s, x);
  return { x, a, b, pairs: pairsOf(a.inverse, s) };
}

function draw(stage, data, s, say) {
  const { x, a, b, pairs } = data;
  const several = s.draws > 1;
  const lines = (side, found) => {
    const name = catalogue[found.name].label[s.lang];
    const series = [{ label: say("mean_of", { name }), y: found.mean, color: side, width: 2.25 }];
    if (several && found.spread > SAME) {
      const edge = { color: side, width: 0.75, dash: [3, 3] };
      series.push({ label: say("least_of", { name }), y: found.low, ...edge });
      series.push({ label: say("most_of", { name }), y: found.high, ...edge });
    }
    return series;
  };
  stage.curves("scores", {
    title: say(s.drop ? "drop_title" : "score_title"),
    x,
    series: [...lines("a", a), ...(b ? lines("b", b) : [])],
    xLabel: say("distance"), yLabel: say(s.drop ? "drop_axis" : "score_axis"),
    lit: litOf(x, s),
    pick: (at) => ({ lit: x[at] }),
    marks: s.trained < s.length ? [{ x: s.trained, label: say("trained_mark") }] : [],
  });
  const rows = [a, ...(b ? [b] : [])].map((found) => [
    catalogue[found.name].label[s.lang],
    ...[1, 2, 4].map((part) => found.mean[Math.floor((x.length - 1) / part)] ?? NaN),
    found.spread,
  ]);
  const at = (part) => say("at", { distance: x[Math.floor((x.length - 1) / part)] });
  stage.table([say("encoding"), at(1), at(2), at(4), say("spread")], rows);
  if (s.pairs && pairs) {
    const cols = pairs.x.length;
    stage.heatmap("pairs", {
      title: say("pairs_title", { name: catalogue[a.name].label[s.lang] }),
      rows: pairs.rows, cols, values: pairs.values, palette: "diverging", range: [-1, 1],
      xLabel: say("distance"), yLabel: say("pair"),
      lit: [null, litOf(pairs.x, s)],
      pick: (row, col) => ({ summed: row + 1, lit: pairs.x[col] }),
      colLabel: (col) => String(pairs.x[col]),
      hover: (pair, col) =>
        say("pair_read", { pair, distance: pairs.x[col], value: pairs.values[pair * cols + col] }),
    });
    stage.curves("summed", {
      title: say("summed_title", { count: pairs.count }),
      x: pairs.x, series: [{ label: say("summed_mean"), y: pairs.mean }],
      xLabel: say("distance"), yLabel: say("summed_mean"), yRange: [-1.05, 1.05], lit: litOf(pairs.x, s),
    });
  } else if (s.pairs) stage.note(say("no_pairs"));
}

const tokens = (s, alike = "[(torch.ones(d), torch.ones(d))]") => {
  if (s.vectors === "ones") return [`draws = ${alike}`];
  const key = s.vectors === "equal" ? "numbers(n)" : "numbers(2 * n + 1)";
  const query = s.vectors === "equal" ? "numbers(n)" : "numbers(2 * n)";
  return [
    "def numbers(n):  # of mean 0 and variance 1",
    "    return 2**0.5 * torch.arange(n * d + 1, n * d + d + 1).double().square().sin()",
    "",
    `draws = [(${query}, ${key}) for n in range(${s.draws})]`,
  ];
};

const summedInPython = (s) => [
  `w = measure.frequencies(encoding)[:, :${s.summed}]`,
  `part = measure.cosine_sum(w, torch.arange(${s.length})) / w.shape[1]`,
  'print("mean of cos(w n) over the first pairs", part)',
];

function python(s) {
  const encoding = make(s.a, s);
  const start = [
    "import torch",
    "import posenc as pe",
    "from posenc.analysis import measure",
    "",
    ...constructed(s.a, s),
  ];
  const drop = s.drop ? " - curves[:, :1]" : "";
  const end = [
    `curves = curves${drop}`,
    'print("mean", curves.mean(dim=0))',
    'print("least", curves.amin(dim=0))',
    'print("greatest", curves.amax(dim=0))',
    `print("at distance ${s.lit}", curves[:, ${s.lit}:${s.lit + 1}].mean())`,
    ...(encoding.inverse ? summedInPython(s) : []),
    "",
  ];
  if (encoding.vector) {
    const reach = Math.min(s.length, encoding.reach ?? Infinity);
    return [
      ...start,
      `table = measure.position_table(encoding, ${reach})`,
      "d = table.shape[1]",
      ...tokens(s, `[(0, 0)] * ${s.draws}  # words, of one pair of positions at each distance`),
      "curves = torch.tensor([[",
      "    (table[key + n] + q) @ (table[key] + k) * d**-0.5",
      `    for n in range(${reach}) for key in [(${reach - 1} - n) * i // max(len(draws) - 1, 1)]`,
      "] for i, (q, k) in enumerate(draws)])",
      ...end,
    ].join("\n");
  }
  const head = Math.min(s.head, (encoding.heads ?? 1) - 1);
  return [
    ...start,
    `heads, d = encoding.heads or 1, encoding.head_dim or ${encoding.width ?? s.d}`,
    ...tokens(s),
    "curves = torch.stack([",
    `    measure.score_curve(encoding, ${s.length}, q.expand(heads, d), k.expand(heads, d),`,
    `                        scale=d**-0.5)[${head}]`,
    "    for q, k in draws",
    "])",
    ...end,
  ].join("\n");
}

export const panel = {
  id: "distance",
  light: "lit",
  lesson: "learn/decay",
  uses: (s) => ["a", "b", "d", "length", "trained", ...reads(s, s.a, s.b)],
  formula: [["p_m · p_n = ∑_i cos(w_i (m - n))"]],
  text: {
    en: {
      title: "Inner product against distance",
      question: "With all numbers of q and k equal, the curve of RoPE falls from the left. Does it fall all the way?",
      answer: "No: it falls only on the whole, for it swings, and rises again and again.",
      more: "With random q and k a score need not fall at all; the mean over many draws with q = k falls as the curve of ones does. To an absolute encoding they are words to which positions are added, (q + p_m) · (k + p_n), and without them positions stand alone. ALiBi falls in a straight line, whatever q and k are.",
      vectors: "Query and key",
      ones: "all ones",
      equal: "random, q = k",
      free: "random, q and k apart",
      draws: "Draws (or pairs of positions)",
      head: "Head",
      drop: "Show how much is lost since distance 0",
      pairs: "Show what each pair of A brings",
      summed: "Pairs summed, from the fastest on",
      summed_title: "The first {count} pairs together",
      summed_mean: "mean of cos(w n)",
      lit: "Lit distance",
      distance: "distance (tokens)",
      score_title: "Score against distance",
      drop_title: "What the score loses with distance",
      score_axis: "score",
      drop_axis: "score less that at distance 0",
      mean_of: "{name}, mean",
      least_of: "{name}, least",
      most_of: "{name}, greatest",
      trained_mark: "trained length",
      encoding: "encoding",
      at: "mean at distance {distance}",
      spread: "widest spread between draws",
      pair: "pair",
      pairs_title: "{name}: cos(w n) of every pair",
      pair_read: "pair {pair}, distance {distance}: {value}",
      no_pairs: "A turns no pairs.",
    },
    zh: {
      title: "内积随距离的变化",
      question: "q 与 k 全取 1 时，RoPE 的曲线从左边开始下降。它会一直降下去吗？",
      answer: "不会：它只是总体下降，一路振荡，会反复回升。",
      more: "q、k 各自随机时，得分完全可能不降反升；q = k 时多次抽样的均值才像全 1 的曲线那样下降。对绝对位置编码，它们是加上位置的词，即 (q + p_m) · (k + p_n)；取全 1 时则只有位置。ALiBi 则不论 q、k 是什么，始终沿直线下降。",
      vectors: "查询与键",
      ones: "全为 1",
      equal: "随机，q = k",
      free: "随机，q 与 k 各自独立",
      draws: "抽样次数（或位置对数）",
      head: "头",
      drop: "显示比距离 0 处下降了多少",
      pairs: "显示 A 的每一对维度的贡献",
      summed: "相加的对数（从最快的算起）",
      summed_title: "前 {count} 对合在一起",
      summed_mean: "cos(w n) 的均值",
      lit: "点亮的距离",
      distance: "距离（词元）",
      score_title: "得分随距离的变化",
      drop_title: "得分随距离下降了多少",
      score_axis: "得分",
      drop_axis: "得分减去距离 0 处的得分",
      mean_of: "{name}，均值",
      least_of: "{name}，最小",
      most_of: "{name}，最大",
      trained_mark: "训练长度",
      encoding: "编码",
      at: "距离 {distance} 处的均值",
      spread: "各次抽样的最大差距",
      pair: "维度对",
      pairs_title: "{name}：每一对的 cos(w n)",
      pair_read: "第 {pair} 对，距离 {distance}：{value}",
      no_pairs: "A 没有旋转任何维度对。",
    },
  },
  controls: [
    { id: "vectors", kind: "select", options: ["ones", "equal", "free"], value: "ones" },
    { id: "draws", kind: "range", min: 1, max: 32, step: 1, value: 8 },
    { id: "head", kind: "range", min: 0, max: (s) => s.heads - 1, step: 1, value: 3 },
    { id: "drop", kind: "toggle", value: true },
    { id: "pairs", kind: "toggle", value: true },
    { id: "summed", kind: "range", min: 1, max: (s) => s.d / 2, step: 1, value: 32, show: (s) => s.pairs },
    { id: "lit", kind: "range", min: 0, max: (s) => s.length - 1, step: 1, value: 7, play: true },
  ],
  compute,
  draw,
  table({ x, a, b }) {
    const of = ({ name }) => ["mean", "low", "high"].map((what) => `${name} ${what}`);
    const head = ["distance", ...of(a), ...(b ? of(b) : [])];
    const values = ({ mean, low, high }, n) => [mean[n], low[n], high[n]];
    return { head, rows: x.map((n, i) => [n, ...values(a, i), ...(b ? values(b, i) : [])]) };
  },
  python,
};
