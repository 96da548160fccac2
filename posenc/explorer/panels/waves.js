import { reads } from "#core/reads.js";
import { encodingFormula } from "#formulas/encodings.js";
import { catalogue, make, python as constructed } from "#math/catalogue.js";
import { dot } from "#math/dot.js";
import { vectors } from "#math/vectors.js";

const LAYOUTS = { interleaved: "half", half: "interleaved" };
// Pairs of positions whose inner products are compared between the layouts.
const COMPARED = [0, 1, 2, 5, 17, 60];

const tableOf = (name, s) => vectors(make(name, s), s.length, s.d);
const row = ({ values, columns }, at) => values.subarray(at * columns, (at + 1) * columns);

/** The largest difference between inner products in the two layouts; null for who has none. */
function layoutGap(table, s) {
  if (!("layout" in catalogue[s.a].settings(s))) return null;
  const few = { ...s, layout: LAYOUTS[s.layout], length: Math.min(s.length, COMPARED.at(-1) + 1) };
  const other = tableOf(s.a, few);
  const at = COMPARED.filter((position) => position < table.rows);
  const gaps = at.flatMap((m) =>
    at.map((n) =>
      Math.abs(dot(row(table, m), row(table, n)) - dot(row(other, m), row(other, n))),
    ),
  );
  return Math.max(...gaps);
}

/** The largest difference between products with rows as far before and behind; null for scores. */
function sidesGap(table, s) {
  if (catalogue[s.a].family !== "absolute" || table.rows < 3) return null;
  const middle = Math.min(Math.floor((table.rows - 1) / 2), COMPARED.at(-1));
  const product = (at) => dot(row(table, middle), row(table, at));
  const steps = Array.from({ length: middle }, (_, n) => n + 1);
  return Math.max(...steps.map((n) => Math.abs(product(middle - n) - product(middle + n))));
}

function compute(s) {
  const a = tableOf(s.a, s);
  const b = s.b === s.a ? null : tableOf(s.b, s);
  const first = Math.min(s.first, a.columns - 1);
  const shown = Math.min(s.count, a.columns - first);
  const x = Array.from({ length: Math.min(s.span, a.rows) }, (_, at) => at);
  const series = Array.from({ length: shown }, (_, i) => ({
    column: first + i,
    y: x.map((at) => a.values[at * a.columns + first + i]),
  }));
  return { a, b, x, series, gap: layoutGap(a, s), sides: sidesGap(a, s) };
}

function map(stage, side, table, s, say) {
  const { kind, rows, columns, values } = table;
  const column = say(kind === "position" ? "dimension" : "head");
  const lit = kind === "position" && s.lit < rows ? [s.lit, null] : undefined;
  stage.heatmap(`map_${side}`, {
    title: say(`${kind}_map`, { name: catalogue[s[side]].label[s.lang] }),
    half: true,
    rows,
    cols: columns,
    values: kind === "position" ? values : values.map((x) => (Number.isFinite(x) ? x : NaN)),
    xLabel: column,
    yLabel: say(kind),
    // Vectors swing around zero; scores have no such middle.
    palette: kind === "position" ? "diverging" : "sequential",
    lit,
    pick: lit && ((at, first) => ({ lit: at, first })),
    hover: (at, col) =>
      say("cell_read", {
        row: `${say(kind)} ${at}`, column: `${column} ${col}`,
        value: values[at * columns + col],
      }),
  });
}

function draw(stage, data, s, say) {
  const { a, b, x, series, gap, sides } = data;
  const column = say(a.kind === "position" ? "dimension" : "head");
  stage.curves("waves", {
    title: say("curves_of", { name: catalogue[s.a].label[s.lang] }),
    x,
    series: series.map(({ column: at, y }) => ({ label: `${column} ${at}`, y })),
    xLabel: say(a.kind),
    yLabel: say("value"),
    lit: a.kind === "position" && s.lit < x.length ? s.lit : null,
    pick: a.kind === "position" ? (lit) => ({ lit }) : null,
    marks: s.trained < x.length ? [{ x: s.trained, label: say("trained_mark") }] : [],
  });
  map(stage, "a", a, s, say);
  if (b) map(stage, "b", b, s, say);
  const verdict = (key, value, without) => ({
    label: say(key),
    passed: value === null ? null : value < 1e-9,
    value: value ?? say(without),
  });
  stage.verdicts([
    verdict("same_products", gap, "one_layout"),
    verdict("same_sides", sides, "not_added"),
  ]);
  if (catalogue[s.a].family === "rotary" && a.kind === "position") stage.note(say("turned_ones"));
  if (a.rows < s.length) stage.note(say("cut", { rows: a.rows }));
}

function python(s) {
  const { width } = make(s.a, s);
  const { kind, rows, columns } = tableOf(s.a, s);
  const first = Math.min(s.first, columns - 1);
  const last = Math.min(first + s.count, columns);
  const table =
    kind === "position"
      ? `measure.position_table(encoding, ${rows})`
      : `measure.score_curve(encoding, ${rows}, q, q, scale=q.shape[-1] ** -0.5).T`;
  const token = [
    `q = torch.ones(encoding.heads or 1, encoding.head_dim or ${width ?? s.d}, dtype=torch.float64)`,
  ];
  return [
    "import torch",
    "import posenc as pe",
    "from posenc.analysis import measure",
    "",
    ...constructed(s.a, s),
    ...(kind === "position" ? [] : token),
    `table = ${table}`,
    `print(table.shape, "one row per ${kind}")`,
    `print(table[:${Math.min(s.span, rows)}, ${first}:${last}])`,
    ...(kind === "position" ? [`here = table[${Math.min(s.lit, rows - 1)}]`, "print(here)"] : []),
    "",
  ].join("\n");
}

export const panel = {
  id: "waves",
  light: "lit",
  lesson: "learn/sinusoids",
  uses: (s) => ["a", "b", "d", "length", "trained", ...reads(s, s.a, s.b)],
  formula: (s) => [...new Set([s.a, s.b])].map((name) => encodingFormula(name, s)),
  text: {
    en: {
      title: "Waves and heatmap",
      question: "The other layout puts the same columns in another order. Does the inner product of any two rows change?",
      answer: "No: every sine keeps its own cosine, so the same products are summed, only in another order.",
      more: "What may not change is which sine and cosine go together: a sine beside the cosine of another frequency breaks it (see Make your own wave, with mismatched frequencies). With pairs kept, the product of two rows is the sum of cos(w (m - n)), and cosine is even: the row n before and the row n behind give the same, so that sinusoids, before any weight or mask, cannot tell left from right.",
      layout: "Layout of A and B",
      lit: "Lit position",
      interleaved: "interleaved: sin, cos, ...",
      half: "half: all sin, then all cos",
      first: "First column drawn",
      count: "Number of columns drawn",
      span: "Rows drawn as curves",
      position: "position",
      distance: "distance (tokens)",
      dimension: "dimension",
      head: "head",
      value: "value",
      curves_of: "Columns of {name}",
      position_map: "{name}: one row per position",
      distance_map: "{name}: one row per distance, the score between equal tokens",
      cell_read: "{row}, {column}: {value}",
      trained_mark: "trained length",
      same_products: "Inner products are the same in the other layout",
      same_sides: "A row's products with the rows n before and n behind are the same: no direction",
      one_layout: "A has one layout only",
      not_added: "for what is added to tokens: choose the sinusoid as A",
      turned_ones: "A rotation is shown by what it makes of a vector of ones.",
      cut: "Only the first {rows} rows are drawn.",
    },
    zh: {
      title: "波形与热图",
      question: "换一种布局，同样的列就换了顺序。任何两行的内积会变吗？",
      answer: "不变：每个正弦仍与自己的余弦配对，相加的还是那些乘积，只是顺序不同。",
      more: "不能变的是哪个正弦配哪个余弦：若与另一频率的余弦配对，就不成立了（见“自制波形”，频率错配）。配对不变时，两行的内积是各个 cos(w (m − n)) 之和，而余弦是偶函数：一行与它前面第 n 行、后面第 n 行的内积相同。所以在权重和掩码起作用之前，正余弦编码分不清左右。",
      layout: "A 与 B 的布局",
      lit: "点亮的位置",
      interleaved: "交错：正弦、余弦……",
      half: "两半：先正弦，后余弦",
      first: "从第几列画起",
      count: "画几列",
      span: "曲线画几行",
      position: "位置",
      distance: "距离（词元）",
      dimension: "维度",
      head: "头",
      value: "取值",
      curves_of: "{name}：各列的波形",
      position_map: "{name}：每行一个位置",
      distance_map: "{name}：每行一个距离，值为相同词元之间的得分",
      cell_read: "{row}，{column}：{value}",
      trained_mark: "训练长度",
      same_products: "换一种布局，内积不变",
      same_sides: "一行与它前面第 n 行、后面第 n 行的内积相同：没有方向",
      one_layout: "A 只有一种布局",
      not_added: "只问加在词元上的编码：请把 A 换成正余弦编码",
      turned_ones: "旋转没有自己的向量，这里画的是它把全 1 向量转成了什么。",
      cut: "只画了前 {rows} 行。",
    },
  },
  controls: [
    { id: "layout", kind: "select", options: ["interleaved", "half"], value: "interleaved" },
    { id: "lit", kind: "range", min: 0, max: (s) => s.length - 1, step: 1, value: 7, play: true },
    { id: "first", kind: "range", min: 0, max: (s) => s.d - 1, step: 1, value: 0 },
    { id: "count", kind: "range", min: 1, max: 8, step: 1, value: 4 },
    { id: "span", kind: "range", min: 8, max: (s) => s.length, step: 1, scale: "log", value: 128 },
  ],
  compute,
  draw,
  table({ a }) {
    const head = [a.kind, ...Array.from({ length: a.columns }, (_, i) => `c${i}`)];
    const rows = Array.from({ length: a.rows }, (_, at) => [at, ...row(a, at)]);
    return { head, rows };
  },
  python,
};
