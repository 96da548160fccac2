import { short } from "#core/numbers.js";
import { partsFormula } from "#formulas/parts.js";
import { make, python as encodingInPython } from "#math/catalogue.js";
import { noise } from "#math/noise.js";
import { KINDS, PARTS, partsOf, WIDTH } from "#math/score_parts.js";
import { effective, softmax } from "#math/softmax.js";

const MOST_HEADS = 8;
const namesOf = (s) => KINDS[s.kind].parts.map((at) => PARTS[at]);
const hasBuckets = (s) => s.kind === "t5" || (s.kind === "deberta" && s.log_buckets);
// Distances below this have buckets of their own.
const exactBuckets = (s) => Math.floor(s.buckets / (s.kind === "t5" && s.bidirectional ? 4 : 2));

function compute(s) {
  const { tokens, kind } = s;
  const head = Math.min(s.head, s.heads - 1);
  const query = Math.min(s.query, tokens - 1);
  const encoding = make(kind, s, KINDS[kind].settings(s));
  const size = tokens * WIDTH;
  const vectors = [0, size].map((start) => noise(size, start));
  const at = (side, n) => vectors[side].subarray(n * WIDTH, (n + 1) * WIDTH);
  const names = namesOf(s);
  const on = names.filter((name) => s[name]);
  const parts = Object.fromEntries(names.map((name) => [name, new Float64Array(tokens * tokens).fill(NaN)]));
  const total = new Float64Array(tokens * tokens).fill(NaN);
  for (let i = 0; i < tokens; i++) {
    for (let j = 0; j < (s.causal ? i + 1 : tokens); j++) {
      const values = partsOf(encoding, at(0, i), at(1, j), i, j, head);
      for (const part of KINDS[kind].parts) parts[PARTS[part]][i * tokens + j] = values[part];
      total[i * tokens + j] = KINDS[kind].parts.reduce((sum, part) => (s[PARTS[part]] ? sum + values[part] : sum), 0);
    }
  }
  const distances = Array.from({ length: tokens }, (_, key) => key - query).filter((d) => !s.causal || d <= 0);
  const row = (matrix) => distances.map((d) => matrix[query * tokens + query + d]);
  const rowOf = KINDS[kind].rows?.(encoding, s);
  const heads = encoding.bias
    ? Array.from({ length: Math.min(s.heads, MOST_HEADS) }, (_, h) => distances.map((d) => encoding.bias(d, h, query)))
    : [];
  const attention = softmax(row(total));
  return {
    tokens, head, query, names, on, parts, total, distances, heads, attention,
    row: row(total),
    effective: effective(attention),
    buckets: rowOf ? distances.map(rowOf) : null,
  };
}

function draw(stage, data, s, say) {
  const { tokens, names, on, parts, distances, query, head } = data;
  const matrix = (name, title, values) =>
    stage.heatmap(name, {
      title, half: true, rows: tokens, cols: tokens, values, palette: "diverging",
      xLabel: say("key"), yLabel: say("query_axis"),
      lit: [query, null],
      pick: (row) => ({ query: row }),
      hover: (i, j) => say("pair", { query: i, key: j, distance: j - i, value: short(values[i * tokens + j]) }),
    });
  matrix("total", on.length ? say("total_figure", { parts: on.map((name) => say(name)).join(" + ") }) : say("nothing_on"), data.total);
  for (const name of names) matrix(name, say("part_figure", { part: say(name) }), parts[name]);
  stage.curves("row", {
    title: say("row_figure", { query, head }), half: true, x: distances,
    series: [{ label: say("total"), y: data.row, width: 2.5 }],
    xLabel: say("distance"), yLabel: say("score"),
    marks: [{ x: 0, label: "0" }],
  });
  stage.curves("attention", {
    title: say("attention_figure", { keys: short(data.effective), all: distances.length }), half: true, x: distances,
    series: [{ label: say("share"), y: data.attention, width: 2.5 }],
    xLabel: say("distance"), yLabel: say("share"),
    marks: [{ x: 0, label: "0" }],
  });
  if (data.heads.length) {
    stage.curves("heads", {
      title: say("heads_figure"), half: true, x: distances,
      series: data.heads.map((y, h) => ({ label: say("head_number", { head: h }), y, width: h === head ? 3 : 1.25 })),
      xLabel: say("distance"), yLabel: say("bias_axis"),
    });
  }
  if (data.buckets) {
    stage.curves("buckets", {
      title: say("buckets_figure"), half: true, x: distances,
      series: [{ label: say("table_row"), y: data.buckets, points: true }],
      xLabel: say("distance"), yLabel: say("table_row"),
    });
  }
  stage.note(say(`${s.kind}_note`));
}

function python(s) {
  const { tokens, heads } = s;
  const head = Math.min(s.head, heads - 1);
  const query = Math.min(s.query, tokens - 1);
  const on = namesOf(s).filter((name) => s[name]);
  return `import torch
import posenc as pe

${encodingInPython(s.kind, s, KINDS[s.kind].settings(s)).join("\n")}
n = torch.arange(1, 2 * ${tokens} * ${WIDTH} + 1, dtype=torch.float64)
noise = 2 * ((12.9898 * n).sin() * 43758.5453 % 1) - 1  # in place of queries and keys
q, k = noise.view(2, 1, 1, ${tokens}, ${WIDTH}).expand(-1, -1, ${heads}, -1, -1)
found = pe.decompose(q, k, encoding, causal=${s.causal ? "True" : "False"})
score = ${on.map((name) => `found.${name}`).join(" + ") || "torch.zeros_like(found.token_token)"}
print(score[0, ${head}, ${query}])
attention = score[0, ${head}, ${query}, :${s.causal ? query + 1 : tokens}].softmax(dim=-1)
print(attention)
print("effective keys", torch.special.entr(attention).sum().exp())
`;
}

export const panel = {
  id: "bias",
  light: "query",
  lesson: "learn/four_parts",
  uses: (s) => ["heads", ...(KINDS[s.kind].uses ?? [])],
  formula: (s) => partsFormula(namesOf(s)),
  text: {
    en: {
      title: "Bias matrices, term by term",
      question: "Leave the content out. Which encodings treat a key 5 tokens before and one 5 tokens after the query alike?",
      answer: "Those that read |i - j| only, ALiBi, KERPLE and Sandwich: their matrices are symmetric.",
      more: "T5's last bucket, Shaw's clip and DeBERTa's span make all far keys alike, while ALiBi's penalty never stops growing.",
      kind: "Encoding",
      alibi: "ALiBi",
      t5: "T5",
      kerple: "KERPLE",
      sandwich: "Sandwich",
      fire: "FIRE",
      shaw: "Shaw",
      transformer_xl: "Transformer-XL",
      deberta: "DeBERTa",
      head: "Head",
      tokens: "Tokens",
      query: "Query of the row",
      causal: "Causal",
      token_token: "token with token: q · k",
      token_position: "query with position",
      position_token: "position with key",
      position_position: "position alone",
      bidirectional: "Bidirectional: the future has its own buckets",
      buckets: "Buckets",
      max_distance: "Largest distance with a bucket of its own kind",
      kernel: "Kernel",
      log: "logarithm",
      power: "power",
      clip: "Clip: farther distances count as this one",
      log_buckets: "Logarithmic buckets (version 2)",
      span: "Span: farther distances count as this one",
      key: "key position",
      query_axis: "query position",
      pair: "query {query}, key {key}, distance {distance}: {value}",
      total_figure: "Score: {parts}",
      nothing_on: "Score: every part is switched off",
      part_figure: "Part: {part}",
      row_figure: "Row of query {query}, head {head}",
      total: "score",
      distance: "distance, key - query",
      score: "score",
      attention_figure: "Softmax of this row: as if {keys} of {all} keys were read",
      share: "share of attention",
      heads_figure: "The bias of each head",
      head_number: "head {head}",
      bias_axis: "bias",
      buckets_figure: "Which row of the table a distance reads",
      table_row: "table row",
      alibi_note: "A straight line per head and nothing trained, so any length will do.",
      t5_note: "One number per bucket and head, shown as training might leave it. Near distances have buckets of their own, far ones share.",
      kerple_note: "Two numbers per head, shown as training might leave them; the logarithm flattens with distance.",
      sandwich_note: "The inner product of two sinusoidal positions, weaker head by head; nothing is trained.",
      fire_note: "A small network reads the distance as a share of the query's position, so the curve stretches with the context. Its weights are fixed numbers here.",
      shaw_note: "The query meets a vector for the clipped distance. Queries, keys and vectors are fixed numbers here.",
      transformer_xl_note: "Four parts: q · k, the query with a projected sinusoid, a trained u with the key, a trained v with the sinusoid. Weights are fixed numbers here.",
      deberta_note: "Content with position and position with content; the scale is 1/sqrt(3d), for three parts. Weights are fixed numbers here.",
    },
    zh: {
      title: "偏置矩阵，逐项拆开",
      question: "先去掉内容项。哪些编码对查询之前第 5 个词元与之后第 5 个词元一视同仁？",
      answer: "只看 |i - j| 的那些：ALiBi、KERPLE 与 Sandwich，它们的矩阵是对称的。",
      more: "T5 的最后一个桶、Shaw 的截断、DeBERTa 的跨度让远处的键不再有区别，而 ALiBi 的惩罚会一直增长。",
      kind: "编码",
      alibi: "ALiBi",
      t5: "T5",
      kerple: "KERPLE",
      sandwich: "Sandwich",
      fire: "FIRE",
      shaw: "Shaw",
      transformer_xl: "Transformer-XL",
      deberta: "DeBERTa",
      head: "注意力头",
      tokens: "词元数",
      query: "看哪一行（查询）",
      causal: "因果",
      token_token: "词元与词元：q · k",
      token_position: "查询与位置",
      position_token: "位置与键",
      position_position: "纯位置",
      bidirectional: "双向：未来另有一半的桶",
      buckets: "桶数",
      max_distance: "最大距离，更远的共用最后一个桶",
      kernel: "核函数",
      log: "对数",
      power: "幂",
      clip: "截断：更远的距离按此计",
      log_buckets: "对数分桶（第二版）",
      span: "跨度：更远的距离按此计",
      key: "键的位置",
      query_axis: "查询的位置",
      pair: "查询 {query}，键 {key}，距离 {distance}：{value}",
      total_figure: "得分：{parts}",
      nothing_on: "得分：所有项都已关闭",
      part_figure: "其中一项：{part}",
      row_figure: "查询 {query} 的一行，第 {head} 头",
      total: "得分",
      distance: "距离（键 - 查询）",
      score: "得分",
      attention_figure: "这一行经过 softmax：{all} 个键中有效的有 {keys} 个",
      share: "注意力份额",
      heads_figure: "各个头的偏置",
      head_number: "第 {head} 头",
      bias_axis: "偏置",
      buckets_figure: "每个距离读取表中的哪一行",
      table_row: "表的行号",
      alibi_note: "每个头一条直线，没有可训练的参数，因此任何长度都能用。",
      t5_note: "每个桶、每个头一个数，这里按训练后可能的样子给出。近处的距离各占一桶，远处的共用。",
      kerple_note: "每个头两个数，这里按训练后可能的样子给出；对数曲线越远越平。",
      sandwich_note: "两个正弦位置的内积，逐头减弱；没有可训练的参数。",
      fire_note: "一个小网络读取距离占查询位置的比例，所以曲线随上下文一起伸展。这里的权重是固定的数。",
      shaw_note: "查询与截断距离对应的向量做内积。这里的查询、键和向量都是固定的数。",
      transformer_xl_note: "共四项：q · k、查询与投影后的正弦、可训练的 u 与键、可训练的 v 与正弦。这里的权重是固定的数。",
      deberta_note: "内容对位置，位置对内容；因为共有三项，缩放为 1/sqrt(3d)。这里的权重是固定的数。",
    },
  },
  controls: [
    { id: "kind", kind: "select", options: Object.keys(KINDS), value: "alibi" },
    { id: "head", kind: "range", min: 0, max: (s) => s.heads - 1, step: 1, value: 0 },
    { id: "tokens", kind: "range", min: 4, max: 96, step: 1, value: 32 },
    { id: "query", kind: "range", min: 0, max: (s) => s.tokens - 1, step: 1, value: 16 },
    { id: "causal", kind: "toggle", value: false },
    ...PARTS.map((id) => ({ id, kind: "toggle", value: id !== "token_token", show: (s) => namesOf(s).includes(id) })),
    { id: "bidirectional", kind: "toggle", value: true, show: (s) => s.kind === "t5" },
    { id: "log_buckets", kind: "toggle", value: false, show: (s) => s.kind === "deberta" },
    { id: "buckets", kind: "range", min: 4, max: 64, step: 2, value: 16, show: hasBuckets },
    {
      id: "max_distance", kind: "range", min: (s) => exactBuckets(s) + 1, max: 256, step: 1, value: 24,
      show: (s) => s.kind === "t5",
    },
    { id: "kernel", kind: "select", options: ["log", "power"], value: "log", show: (s) => s.kind === "kerple" },
    { id: "clip", kind: "range", min: 1, max: 32, step: 1, value: 6, show: (s) => s.kind === "shaw" },
    {
      id: "span", kind: "range", min: (s) => (s.log_buckets ? exactBuckets(s) + 2 : 1), max: 128, step: 1, value: 12,
      show: (s) => s.kind === "deberta",
    },
  ],
  compute,
  draw,
  table(data) {
    const head = ["query", ...Array.from({ length: data.tokens }, (_, key) => `key ${key}`)];
    const row = (query) => Array.from(data.total.slice(query * data.tokens, (query + 1) * data.tokens), finite);
    return { head, rows: Array.from({ length: data.tokens }, (_, query) => [query, ...row(query)]) };
  },
  python,
};

function finite(value) {
  return Number.isNaN(value) ? null : value;
}
