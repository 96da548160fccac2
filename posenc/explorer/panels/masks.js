import { maskFormula } from "#formulas/masks.js";
import { visible } from "#math/masks.js";
import { firstReached } from "#math/receptive_field.js";

/** The rule of `visible` that the settings stand for. */
function ruleOf(s) {
  const width = s.width + (s.convention === "besides" ? 1 : 0);
  switch (s.rule) {
    case "window":
      return { causal: s.causal, window: width, sinks: s.sinks };
    case "chunk":
      return { causal: s.causal, chunk: s.width };
    case "prefix":
      return { causal: true, prefix: s.prefix_count };
    default:
      return { causal: s.causal };
  }
}

function compute(s) {
  const { tokens, layers } = s;
  const rule = ruleOf(s);
  const query = Math.min(s.query, tokens - 1);
  const first = firstReached((q, k) => visible(rule, q, k), tokens, layers);
  const reach = Array.from({ length: layers }, () => 0);
  let seen = 0;
  for (let at = 0; at < tokens * tokens; at++) if (first[at] === 1) seen++;
  for (let key = 0; key < tokens; key++) {
    const from = first[query * tokens + key];
    for (let layer = from; from && layer <= layers; layer++) reach[layer - 1]++;
  }
  const predicted = rule.window
    ? reach.map((_, at) => Math.min(query + 1, (at + 1) * (rule.window - 1) + 1))
    : null;
  return { tokens, query, rule, first: Array.from(first), reach, predicted, seen };
}

function draw(stage, data, s, say) {
  const { tokens, first, query, reach } = data;
  const field = { half: true, rows: tokens, cols: tokens, xLabel: say("key"), yLabel: say("query_axis") };
  const at = (row, col) => first[row * tokens + col];
  stage.heatmap("mask", {
    title: say("mask_figure"),
    ...field,
    values: first.map((layer) => (layer === 1 ? 1 : 0)),
    palette: "categorical",
    classes: [say("is_hidden"), say("is_seen")],
    hover: (row, col) => say(at(row, col) === 1 ? "sees" : "hidden", { query: row, key: col }),
  });
  stage.heatmap("field", {
    title: say("field_figure", { layers: s.layers }),
    ...field,
    values: first.map((layer) => layer || NaN),
    palette: "sequential",
    range: [1, Math.max(2, s.layers)],
    hover: (row, col) => say(at(row, col) ? "reached" : "unreached", { query: row, key: col, layer: at(row, col) }),
  });
  const series = [{ label: say("counted"), y: reach, width: 2.5 }];
  if (showsFormula(data, s)) series.push({ label: say(`by_formula_${s.convention}`), y: data.predicted, dash: [6, 4], color: "ink" });
  stage.curves("reach", {
    title: say("reach_figure", { query }),
    x: reach.map((_, layer) => layer + 1),
    series,
    xLabel: say("layers"),
    yLabel: say("tokens_reached"),
  });
  stage.note(say("summary", { query, layers: s.layers, count: reach.at(-1), pairs: data.seen, all: tokens * tokens }));
}

// The formula is that of a causal window alone.
const showsFormula = (data, s) => data.predicted !== null && s.causal && s.sinks === 0;

function python(s) {
  const query = Math.min(s.query, s.tokens - 1);
  const width = s.width + (s.convention === "besides" ? 1 : 0);
  const causal = s.causal || s.rule === "prefix" ? "True" : "False";
  const parts = {
    everything: "[]",
    window: `[pe.SlidingWindow(${width})${s.sinks ? `, pe.Sinks(${s.sinks})` : ""}]`,
    chunk: `[pe.Documents(torch.arange(tokens) // ${s.width})]`,
    prefix: `[Mask(Prefix(${s.prefix_count}))]`,
  };
  const terms = s.rule === "prefix" ? "from posenc.terms import Mask, Prefix\n" : "";
  return `import torch
import posenc as pe
${terms}
tokens, layers, query = ${s.tokens}, ${s.layers}, ${query}
blank = torch.zeros(1, 1, tokens, 2)
scores = pe.scores(blank, blank, ${parts[s.rule]}, causal=${causal})
sees = (scores > -torch.inf)[0, 0].double()
print(int(sees.sum()), "pairs see each other")
reached = seen = sees
for layer in range(1, layers + 1):
    print(f"layer {layer}: token {query} is reached by {int(seen[query].sum())} tokens")
    reached = (sees @ reached > 0).double()
    seen = torch.maximum(seen, reached)
`;
}

export const panel = {
  id: "masks",
  lesson: "learn/windows",
  uses: [],
  formula: (s) => [maskFormula(s)],
  text: {
    en: {
      title: "Masks and receptive field",
      question: "Each token sees only its last 4 tokens. How far back can the last token hear after 4 layers?",
      answer: "13 tokens, itself included: every layer adds width - 1 tokens, because what a neighbour heard is passed on.",
      more: "Chunks never add anything.",
      rule: "Mask",
      everything: "no restriction",
      window: "sliding window",
      chunk: "chunks",
      prefix: "prefix, then causal",
      causal: "Causal: no token sees the future",
      width: "Width of the window or chunk",
      convention: "The width counts",
      included: "the token itself too",
      besides: "only the others",
      sinks: "Sinks: first tokens kept in sight of a window",
      prefix_count: "Length of the prefix",
      layers: "Layers",
      tokens: "Tokens",
      query: "Token to follow",
      key: "key position",
      query_axis: "query position",
      mask_figure: "One layer: who sees whom",
      field_figure: "First layer at which a key is heard, up to {layers}",
      reach_figure: "Tokens that token {query} hears, itself included",
      sees: "{query} sees {key}",
      hidden: "{key} is hidden from {query}",
      is_hidden: "hidden",
      is_seen: "seen",
      reached: "{query} hears {key} from layer {layer} on",
      unreached: "{query} does not hear {key}",
      counted: "counted",
      by_formula_included: "L (w - 1) + 1",
      by_formula_besides: "L w + 1",
      tokens_reached: "tokens",
      summary: "{pairs} of {all} pairs are computed in each layer. After {layers} layers {count} tokens have reached token {query}.",
    },
    zh: {
      title: "掩码与感受野",
      question: "每个词元只能看到包括自己在内的最近 4 个词元。经过 4 层之后，最后一个词元能听到多远？",
      answer: "13 个词元，包括它自己：邻居听到的内容会逐层传递，所以每多一层就多 w - 1 个词元。",
      more: "分块则永远传不出块外。",
      rule: "掩码",
      everything: "不加限制",
      window: "滑动窗口",
      chunk: "分块",
      prefix: "前缀双向，之后因果",
      causal: "因果：看不到后面的词元",
      width: "窗口或块的宽度",
      convention: "宽度怎么数",
      included: "包括自己",
      besides: "不包括自己",
      sinks: "汇点：窗口之外仍可见的开头词元数",
      prefix_count: "前缀长度",
      layers: "层数",
      tokens: "词元数",
      query: "跟踪哪个词元",
      key: "键的位置",
      query_axis: "查询的位置",
      mask_figure: "一层之内：谁能看到谁",
      field_figure: "最早在第几层听到某个键（至多 {layers} 层）",
      reach_figure: "词元 {query} 听到的词元数（含自己）",
      sees: "{query} 看得到 {key}",
      hidden: "{query} 看不到 {key}",
      is_hidden: "看不到",
      is_seen: "看得到",
      reached: "{query} 从第 {layer} 层起听到 {key}",
      unreached: "{query} 听不到 {key}",
      counted: "逐对数出",
      by_formula_included: "L (w - 1) + 1",
      by_formula_besides: "L w + 1",
      tokens_reached: "词元数",
      summary: "每层计算 {all} 对中的 {pairs} 对。经过 {layers} 层，有 {count} 个词元的信息到达词元 {query}。",
    },
  },
  controls: [
    { id: "rule", kind: "select", options: ["everything", "window", "chunk", "prefix"], value: "window" },
    { id: "causal", kind: "toggle", value: true, show: (s) => s.rule !== "prefix" },
    { id: "tokens", kind: "range", min: 4, max: 64, step: 1, value: 24 },
    {
      id: "width", kind: "range", min: 1, max: (s) => s.tokens, step: 1, value: 4,
      show: (s) => s.rule === "window" || s.rule === "chunk",
    },
    {
      id: "convention", kind: "select", options: ["included", "besides"], value: "included",
      show: (s) => s.rule === "window",
    },
    { id: "sinks", kind: "range", min: 0, max: 8, step: 1, value: 0, show: (s) => s.rule === "window" },
    {
      id: "prefix_count", kind: "range", min: 1, max: (s) => s.tokens, step: 1, value: 6,
      show: (s) => s.rule === "prefix",
    },
    { id: "layers", kind: "range", min: 1, max: 12, step: 1, value: 4, play: true },
    { id: "query", kind: "range", min: 0, max: (s) => s.tokens - 1, step: 1, value: 23 },
  ],
  compute,
  draw,
  table(data) {
    const head = ["query", ...Array.from({ length: data.tokens }, (_, key) => `key ${key}`)];
    const row = (query) => data.first.slice(query * data.tokens, (query + 1) * data.tokens);
    return { head, rows: Array.from({ length: data.tokens }, (_, query) => [query, ...row(query)]) };
  },
  python,
};
