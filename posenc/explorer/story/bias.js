import { foot, side, SMALL } from "#core/axis.js";
import { cells, frame } from "#core/cells.js";
import { colorScale } from "#core/color_scale.js";
import { dot, line } from "#core/marks.js";
import { short, ticks } from "#core/numbers.js";
import { slopes } from "#math/alibi.js";
import { make } from "#math/catalogue.js";
import { KINDS } from "#math/score_parts.js";
import { panel } from "#panels/bias.js";

const [TOKENS, HEADS] = [48, 8];
// What is asked: how much attention stays within so many tokens.
const NEAR = 8;

/** The matrix, and below it the lit row twice, over the same keys: what it adds, and what comes of it. */
function layout(width) {
  const narrow = width < 520;
  const box = { left: 44, width: width - 52 };
  const matrix = { ...box, top: 20, height: narrow ? 122 : 174 };
  const tall = narrow ? 52 : 64;
  const added = { ...box, top: matrix.top + matrix.height + 22, height: tall };
  const shares = { ...box, top: added.top + tall + 24, height: tall };
  return { height: shares.top + tall + 38, matrix, added, shares };
}

function grab(x, y, width) {
  const { matrix, added, shares } = layout(width);
  const token = (share) => ({ query: Math.min(Math.max(Math.floor(share * TOKENS), 0), TOKENS - 1) });
  if (x < matrix.left || x > matrix.left + matrix.width || y > shares.top + shares.height) return null;
  if (y <= matrix.top + matrix.height) return (_, to) => token((to - matrix.top) / matrix.height);
  return y >= added.top ? (to) => token((to - matrix.left) / matrix.width) : null;
}

/** The share of attention that goes to keys at most NEAR tokens away. */
const nearShare = ({ attention, distances }) =>
  attention.reduce((sum, share, i) => (Math.abs(distances[i]) <= NEAR ? sum + share : sum), 0);

/** The least and the greatest that any head adds at any distance: one scale, whichever head is shown. */
function rangeOf(s) {
  const encoding = make(s.kind, s, KINDS[s.kind].settings(s));
  let [low, high] = [0, 0];
  for (let head = 0; head < HEADS; head += 1)
    for (let distance = 1 - TOKENS; distance < TOKENS; distance += 1) {
      const value = encoding.bias(distance, head, 0);
      [low, high] = [Math.min(low, value), Math.max(high, value)];
    }
  return [low, high];
}

function draw(stage, data, s, say) {
  const { height } = layout(stage.width);
  const range = rangeOf(s);
  const near = s.told ? `${(100 * nearShare(data)).toFixed(1)}%` : "?";
  const label = say("picture_label", { query: s.query, near: NEAR, share: near });
  stage.paint(
    "bias",
    { height, grab, steps: { x: "query", down: "query" }, label },
    (ctx, width, _, colors) => {
      const { matrix, added, shares } = layout(width);
      const size = { rows: TOKENS, cols: TOKENS };
      const most = Math.max(-range[0], range[1]);
      cells(ctx, matrix, { ...size, values: data.total, range: [-most, most] }, stage.page.theme);
      colorScale(ctx, [matrix.left, 8], say("added"), range, [-most, most], stage.page.theme, colors);
      frame(ctx, matrix, size, [s.query, null], colors.accent);
      side(ctx, matrix, say("query_axis"), colors);
      rows(ctx, matrix, colors);
      const x = (key) => matrix.left + ((key + 0.5) / TOKENS) * matrix.width;
      ctx.fillStyle = colors.grid;
      const [first, last] = [Math.max(s.query - NEAR, 0), Math.min(s.query + NEAR, TOKENS - 1)];
      const cell = matrix.width / TOKENS;
      ctx.fillRect(x(first) - cell / 2, shares.top, (last - first + 1) * cell, shares.height);
      strip(ctx, added, say("added_row", { query: s.query }), colors.a, colors);
      addedRow(ctx, added, data.row, range, s, x, colors);
      strip(ctx, shares, say("shares"), colors.b, colors);
      sharesRow(ctx, shares, data, s, x, near, colors, say);
      const marks = ticks(0, TOKENS - 1, matrix.width / 60, true).map((key) => [key, x(key)]);
      foot(ctx, { ...shares, y: shares.top + shares.height }, marks, say("key"), colors);
    },
  );
  stage.note(say(`${s.kind}_note`));
}

function rows(ctx, { left, top, height }, colors) {
  ctx.font = SMALL;
  ctx.fillStyle = colors.muted;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  for (const query of ticks(0, TOKENS - 1, height / 40, true))
    ctx.fillText(String(query), left - 5, top + ((query + 0.5) / TOKENS) * height);
}

/** The name of a strip, and the line that it stands on. */
function strip(ctx, { left, top, width, height }, name, color, colors) {
  ctx.font = SMALL;
  ctx.fillStyle = color;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.fillText(name, left, top - 6);
  line(ctx, [[left, top + height], [left + width, top + height]], colors.grid, 1);
}

/** What is added to the scores of the lit query, on the scale of all heads. */
function addedRow(ctx, { left, top, height }, row, [low, high], { query }, x, colors) {
  const y = (value) => top + 4 + ((height - 8) * (high - value)) / (high - low || 1);
  line(ctx, [[x(query), top], [x(query), top + height]], colors.accent, 2);
  line(ctx, row.map((value, key) => [x(key), y(value)]), colors.a, 1.5);
  row.forEach((value, key) => dot(ctx, x(key), y(value), colors.a, 2.5));
  ctx.fillStyle = colors.muted;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  for (const value of [low, high]) ctx.fillText(short(Number(value.toPrecision(2))).replace("-", "−"), left - 5, y(value));
}

function sharesRow(ctx, { left, top, width, height }, { attention, distances }, s, x, near, colors, say) {
  line(ctx, [[x(s.query), top], [x(s.query), top + height]], colors.accent, 2);
  ctx.textBaseline = "top";
  // Away from the query there is room.
  ctx.textAlign = s.query < TOKENS / 2 ? "right" : "left";
  ctx.fillStyle = s.told ? colors.b : colors.muted;
  ctx.font = "600 14px system-ui, sans-serif";
  const place = s.query < TOKENS / 2 ? left + width - 4 : left + 4;
  ctx.fillText(say("near_share", { near: NEAR, share: near }), place, top + 8);
  if (!s.told) return;
  const most = Math.max(...attention);
  const wide = (0.8 * width) / TOKENS;
  ctx.fillStyle = colors.b;
  attention.forEach((share, i) => {
    const tall = ((height - 4) * share) / most;
    ctx.fillRect(x(s.query + distances[i]) - wide / 2, top + height - tall, wide, tall);
  });
  ctx.font = SMALL;
  ctx.fillStyle = colors.muted;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  ctx.fillText(short(Number(most.toPrecision(2))), left - 5, top + 6);
}

// What each adds, in the colour of its curve.
const SCORES = {
  alibi: ({ head }) => [`score_{#accent{m},n} = {q_m · k_n}/{√d} - #a{ {1}/{${1 / slopes(HEADS)[head]}} |#accent{m} - n|}`],
  t5: () => ["score_{#accent{m},n} = {q_m · k_n}/{√d} + #a{b_{bucket(n - #accent{m})}}"],
  kerple: () => ["score_{#accent{m},n} = {q_m · k_n}/{√d} - #a{r_1 ln(1 + r_2 |#accent{m} - n|)}"],
};

export const chapter = {
  id: "bias",
  panel,
  holds: {
    heads: HEADS, tokens: TOKENS, causal: false, bidirectional: true, buckets: 16, max_distance: 24,
    kernel: "log", token_token: false, token_position: true, position_token: true, position_position: true,
  },
  options: { kind: ["alibi", "t5", "kerple"] },
  controls: ["kind", "head"],
  formula: (s) => [
    SCORES[s.kind](s),
    s.told ? ["a_{m,n} = {e^{score_{m,n}}}/{∑_j e^{score_{m,j}}}"] : [],
  ],
  predict: { options: ["third", "two_thirds", "nearly_all"], right: () => "nearly_all", at: 12 },
  draw,
  text: {
    en: {
      title: "A number per distance",
      lead: "Leave words and vectors as they are, and add a number to each score, chosen by the distance. Drag across the table to choose a query: its row stands below.",
      question: "In head 0 of ALiBi every token of distance takes half a point off the score. With words all alike, how much of its attention does a query give to the keys at most 8 tokens away?",
      third: "a third: their share of the keys",
      two_thirds: "two thirds",
      nearly_all: "nearly all",
      answer: "Nearly all, in head 0 of ALiBi 98% or more: attention is e to the power of the score, so a straight line in the scores fades by a constant factor at each token. Heads of smaller slopes look farther.",
      fails: "But where such numbers are learned, training has met only the distances of its own texts.",
      leads: "What does a model make of a text that is longer than all of those?",
      alibi: "ALiBi: a straight line",
      t5: "T5: a table of numbers",
      kerple: "KERPLE: a logarithm",
      alibi_note: "Every head has a slope of its own, half that of the head before. Nothing is learned.",
      t5_note: "Near distances have numbers of their own, farther ones share them. The numbers here stand for learned ones.",
      kerple_note: "Every head learns two numbers; a logarithm takes off ever less for one more token. The numbers here stand for learned ones.",
      added: "added to the score",
      added_row: "the same for query {query} alone",
      shares: "attention, with words all alike",
      near_share: "within {near} tokens: {share}",
      picture_label: "What is added to the score of every query and key, the row of query {query} below it, and its attention, of which keys within {near} tokens get {share}. Arrow keys move the query.",
    },
    zh: {
      title: "每个距离一个数",
      lead: "词和向量都不动，只按距离给每个得分加一个数。在表上拖动来选一个查询：它的那一行画在下面。",
      question: "在 ALiBi 的第 0 个头里，距离每多一个词元，得分就减少 0.5。如果所有的词都一样，一个查询会把多少注意力分给 8 个词元以内的键？",
      third: "三分之一：它们在所有键中所占的比例",
      two_thirds: "三分之二",
      nearly_all: "几乎全部",
      answer: "几乎全部，ALiBi 的第 0 个头分出 98% 以上：注意力是 e 的得分次方，得分上的一条直线，到了注意力里就是每隔一个词元按固定比例衰减。斜率小的头看得更远。",
      fails: "但是这些数若是学来的，训练只见过自己的文本里出现的那些距离。",
      leads: "遇到比那些都长的文本，模型会怎样？",
      alibi: "ALiBi：一条直线",
      t5: "T5：一张数的表",
      kerple: "KERPLE：一条对数曲线",
      alibi_note: "每个头有自己的斜率，是前一个头的一半。没有任何东西要学。",
      t5_note: "近处的距离各有一个数，远处的几个距离共用一个。这里的数只是代替学到的数。",
      kerple_note: "每个头学两个数；对数越远越平。这里的数只是代替学到的数。",
      added: "加到得分上的数",
      added_row: "其中查询 {query} 的那一行",
      shares: "所有的词都一样时的注意力",
      near_share: "{near} 个词元以内：{share}",
      picture_label: "每个查询与每个键的得分上所加的数，下面是查询 {query} 的那一行，以及它的注意力，其中 {near} 个词元以内的键得到 {share}。方向键移动查询。",
    },
  },
};
