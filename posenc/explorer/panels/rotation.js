import { arrow } from "#core/arrow.js";
import { dot } from "#math/dot.js";
import { fixed } from "#math/fixed.js";
import { inverseFrequencies } from "#math/frequencies.js";
import { angles, pair as dimensions, turn } from "#math/rotary.js";

const SHIFTS = 64;
const GRID = 32;
const OTHER = { half: "interleaved", interleaved: "half" };

/** The layouts that turn q and k, and the one that the weights of q and k were trained for. */
function layouts(s) {
  const other = OTHER[s.layout];
  const used = { same: [s.layout, s.layout], other: [other, other], mixed: [s.layout, other] };
  return { q: used[s.turned][0], k: used[s.turned][1], trained: s.layout };
}

function compute(s) {
  const inverse = inverseFrequencies(s.d, s.base);
  const [q, k] = [fixed(s.d, 0, Math.SQRT2), fixed(s.d, s.d, Math.SQRT2)];
  const used = layouts(s);
  const turned = (x, position, layout) => turn(x, angles(position, inverse), layout);
  const score = (m, n, by = used) =>
    dot(turned(q, m, by.q), turned(k, n, by.k)) * s.d ** -0.5;

  const right = { q: s.layout, k: s.layout };
  const both = Array.from({ length: SHIFTS + 1 }, (_, shift) => score(s.m + shift, s.n + shift));
  const alone = Array.from({ length: SHIFTS + 1 }, (_, shift) => score(s.m + shift, s.n));
  const rows = { q: [], k: [] };
  for (let position = 0; position < GRID; position++) {
    rows.q.push(turned(q, position, used.q));
    rows.k.push(turned(k, position, used.k));
  }
  const grid = rows.q.flatMap((a) => rows.k.map((b) => dot(a, b) * s.d ** -0.5));

  // The arrows: two dimensions that turn together, before and after.
  const arrow = (x, position, layout) => {
    const at = dimensions(s.pair, s.d / 2, layout);
    const moved = turned(x, position, layout);
    return { at, from: at.map((i) => x[i]), to: at.map((i) => moved[i]) };
  };
  const arrows = { q: arrow(q, s.m, used.q), k: arrow(k, s.n, used.k) };
  return {
    arrows, both, alone, grid,
    angle: (s.m - s.n) * inverse[s.pair],
    frequency: inverse[s.pair],
    // Arrows of different dimensions have no product in the score.
    pairProduct: used.q === used.k ? dot(arrows.q.to, arrows.k.to) : null,
    score: both[0],
    trained: score(s.m, s.n, right),
    spread: Math.max(...both) - Math.min(...both),
  };
}

function paintArrows(ctx, width, height, colors, { arrows }, say) {
  const centre = [width / 2, height / 2];
  const longest = Math.max(...[arrows.q.from, arrows.k.from].map(([x, y]) => Math.hypot(x, y)));
  const unit = (Math.min(width, height) / 2 - 28) / (longest || 1);
  const place = ([x, y]) => [centre[0] + x * unit, centre[1] - y * unit];
  ctx.strokeStyle = colors.grid;
  ctx.lineWidth = 1;
  for (const { from } of [arrows.q, arrows.k]) {
    ctx.beginPath();
    ctx.arc(...centre, Math.hypot(...from) * unit, 0, 2 * Math.PI);
    ctx.stroke();
  }
  ctx.font = "13px system-ui, sans-serif";
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  for (const [name, color] of [["q", colors.a], ["k", colors.b]]) {
    const { from, to } = arrows[name];
    arrow(ctx, centre, place(from), color, true);
    arrow(ctx, centre, place(to), color, false);
    const [x, y] = place(to);
    const out = 14 / (Math.hypot(x - centre[0], y - centre[1]) || 1);
    ctx.fillStyle = color;
    ctx.fillText(say(name), x + (x - centre[0]) * out, y + (y - centre[1]) * out);
  }
}

function draw(stage, data, s, say) {
  stage.paint(
    "arrows",
    {
      height: 380, half: true, title: say("arrows_title", { pair: s.pair }),
      label: say("arrows_label", { pair: s.pair, m: s.m, n: s.n, angle: data.angle }),
    },
    (ctx, width, height, colors) => paintArrows(ctx, width, height, colors, data, say),
  );
  stage.heatmap("grid", {
    title: say("grid_title"),
    half: true,
    rows: GRID, cols: GRID, values: data.grid, palette: "diverging",
    xLabel: say("key"),
    yLabel: say("query"),
    hover: (row, col) => say("grid_read", { m: row, n: col, value: data.grid[row * GRID + col] }),
  });
  stage.curves("shifted", {
    title: say("shift_title"),
    x: data.both.map((_, shift) => shift),
    series: [
      { label: say("both_moved"), y: data.both, color: "a", width: 2.25 },
      { label: say("query_moved"), y: data.alone, color: "b", dash: [6, 4] },
    ],
    xLabel: say("shift"),
    yLabel: say("score"),
  });
  stage.verdicts([
    { label: say("relative"), passed: data.spread < 1e-9, value: data.spread },
    {
      label: say("as_trained"),
      passed: Math.abs(data.score - data.trained) < 1e-9,
      value: data.score - data.trained,
    },
  ]);
  const { angle, score, pairProduct } = data;
  if (pairProduct === null) {
    const [q, k] = ["q", "k"].map((side) => data.arrows[side].at.join(", "));
    stage.note(say("mixed_summary", { pair: s.pair, q, k, score }));
  } else {
    const values = { pair: s.pair, distance: s.m - s.n, angle, pairProduct, score };
    stage.note(say("summary", values));
  }
}

function python(s) {
  const { q, k } = layouts(s);
  const turned = (name, position, layout) =>
    `pe.rotate(${name}, ${name}, pe.Rotary(${s.d}, ${s.base}, "${layout}"), positions=torch.tensor([${position}]))[0]`;
  return `import torch
import posenc as pe

n = torch.arange(1, 2 * ${s.d} + 1, dtype=torch.float64)
q, k = (2**0.5 * (n * n).sin()).view(2, 1, 1, 1, ${s.d})  # (batch, heads, tokens, d)


def score(m, n):
    turned_q = ${turned("q", "m", q)}
    turned_k = ${turned("k", "n", k)}
    return ((turned_q * turned_k).sum() * ${s.d} ** -0.5).item()


print("score", score(${s.m}, ${s.n}))
both = [score(${s.m} + shift, ${s.n} + shift) for shift in range(${SHIFTS + 1})]
print("both moved: spread", max(both) - min(both))
`;
}

export const panel = {
  id: "rotation",
  light: "m",
  lesson: "learn/rotary",
  uses: ["d", "base", "length"],
  formula: [["{(R_m q)}^⊤ (R_n k) = q^⊤ R_{n-m} k"]],
  text: {
    en: {
      title: "Rotation lab",
      question: "Both arrows turn as m and n grow by the same number. What happens to their inner product?",
      answer: "Nothing: both arrows turn by the same angle, and only m - n is left.",
      more: "The layout says which two numbers turn together. Training may begin with either, but weights learn the one they began with: with the other for both q and k the scores still depend on m - n alone, and are not those that were trained. With two layouts mixed, what turns together in q does not meet it in k, and moving the text changes its scores.",
      m: "Position m of the query",
      n: "Position n of the key",
      pair: "Pair shown",
      layout: "Layout that the weights were trained for",
      half: "half: i, i + d/2",
      interleaved: "interleaved: 2i, 2i + 1",
      turned: "Turned by",
      same: "the same layout",
      other: "the other layout for both",
      mixed: "the other layout for k",
      q: "q",
      k: "k",
      arrows_title: "Pair {pair} of q and k, before (dashed) and after turning",
      arrows_label: "Arrows of pair {pair}: the query at {m}, the key at {n}, turned against each other by {angle} radians",
      grid_title: "Score of every query position with every key position",
      grid_read: "query at {m}, key at {n}: {value}",
      key: "key position n",
      query: "query position m",
      shift_title: "Moving the text",
      shift: "moved by (tokens)",
      score: "score",
      both_moved: "q and k moved",
      query_moved: "q moved alone",
      relative: "The score depends on m - n alone (spread)",
      as_trained: "The score is the one that was trained (difference)",
      summary: "m - n = {distance}: pair {pair} is turned by {angle} radians and brings {pairProduct} before the scale; the score of all pairs is {score}.",
      mixed_summary: "Pair {pair} of q is dimensions {q}, but pair {pair} of k is dimensions {k}: what turns together does not meet in the inner product. The score is {score}.",
    },
    zh: {
      title: "旋转实验室",
      question: "m 与 n 增加同样的数，两个箭头都会转动，它们的内积会怎样？",
      answer: "内积不变：两个箭头转过同样的角度，剩下的只有 m − n。",
      more: "布局规定哪两个数一起转。训练前用哪一种都行，但权重学会的就是训练时的那一种：q、k 都改用另一种布局时，得分仍只依赖 m − n，却已不是训练时的得分。若两种布局混用，q 与 k 的配对方式不同，整段文本平移一下，得分就变了。",
      m: "查询的位置 m",
      n: "键的位置 n",
      pair: "显示第几对",
      layout: "权重训练时的布局",
      half: "两半布局：(i, i + d/2)",
      interleaved: "交错布局：(2i, 2i + 1)",
      turned: "旋转时使用",
      same: "同一种布局",
      other: "q、k 都用另一种",
      mixed: "只有 k 用另一种",
      q: "q",
      k: "k",
      arrows_title: "q 与 k 的第 {pair} 对，旋转前（虚线）与旋转后",
      arrows_label: "第 {pair} 对的箭头：查询在位置 {m}，键在位置 {n}，相对转过 {angle} 弧度",
      grid_title: "每个查询位置与每个键位置的得分",
      grid_read: "查询在 {m}，键在 {n}：{value}",
      key: "键的位置 n",
      query: "查询的位置 m",
      shift_title: "平移文本",
      shift: "平移量（词元）",
      score: "得分",
      both_moved: "q 与 k 一起平移",
      query_moved: "只平移 q",
      relative: "得分只依赖 m − n（最大起伏）",
      as_trained: "得分与训练时相同（相差）",
      summary: "m − n = {distance}：第 {pair} 对相对转过 {angle} 弧度，缩放前贡献 {pairProduct}；全部维度对的得分为 {score}。",
      mixed_summary: "q 的第 {pair} 对是维度 {q}，k 的第 {pair} 对却是维度 {k}：一起转动的维度在内积中并不相遇。得分为 {score}。",
    },
  },
  controls: [
    { id: "m", kind: "range", min: 0, max: (s) => s.length - 1, step: 1, value: 12, play: true },
    { id: "n", kind: "range", min: 0, max: (s) => s.length - 1, step: 1, value: 5 },
    { id: "pair", kind: "range", min: 0, max: (s) => s.d / 2 - 1, step: 1, value: 3 },
    { id: "layout", kind: "select", options: ["half", "interleaved"], value: "half" },
    { id: "turned", kind: "select", options: ["same", "other", "mixed"], value: "same" },
  ],
  compute,
  draw,
  table({ both, alone }) {
    const head = ["moved_by", "score_both_moved", "score_query_moved"];
    return { head, rows: both.map((value, shift) => [shift, value, alone[shift]]) };
  },
  python,
};
