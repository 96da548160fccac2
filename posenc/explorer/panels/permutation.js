import { reads } from "#core/reads.js";
import { UserError } from "#core/errors.js";
import { catalogue, make, python as constructed } from "#math/catalogue.js";
import { attend, ordered, orders, split, vector } from "#math/sentence.js";
import { needExact } from "#math/tables.js";

const SENTENCES = { en: "dog bites man", zh: "狗 咬 人" };
// Below this an output counts as the same: rounding, in sums of another order.
const SAME = 1e-9;

const sentence = (s) => s.words || SENTENCES[s.lang];
const shown = (s) => (s.with ? s.a : "none");
// A table for the words must have a row for each of them, and the words its width.
const sized = (s, words) => ({
  ...s,
  d: catalogue[shown(s)].width ?? s.d,
  length: Math.max(s.length, words.length),
});

function compute(s) {
  const words = split(sentence(s));
  needExact(shown(s), s.lang);
  const { d } = sized(s, words);
  const encoding = make(shown(s), sized(s, words));
  if (encoding.causalOnly && !s.causal) {
    throw new UserError("causal_only", { name: catalogue[s.a].label[s.lang] });
  }
  const order = ordered(words.length, s.order);
  const spelling = words.map((word) => words.indexOf(word));
  const tokens = spelling.map((n) => vector(n, d));
  const before = attend(tokens, encoding, s.causal);
  const after = attend(
    order.map((from) => tokens[from]),
    encoding,
    s.causal,
  );
  const change = order.map((from, to) =>
    after[to].reduce((most, value, i) => Math.max(most, Math.abs(value - before[from][i])), 0),
  );
  return {
    words, order, change, columns: before[0].length,
    before: before.map((out) => Array.from(out)),
    after: after.map((out) => Array.from(out)),
  };
}

function lines(data, say) {
  const { words, order, change } = data;
  return (context, width, height, colors) => {
    const count = words.length;
    const x = (place) => ((place + 0.5) / count) * width;
    const box = Math.min(width / count - 6, 110);
    const top = 44;
    const bottom = height - 64;
    context.font = "13px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    order.forEach((from, to) => {
      const same = change[to] < SAME;
      context.strokeStyle = same ? colors.a : colors.b;
      context.lineWidth = same ? 1.5 : 2.5;
      context.setLineDash(same ? [] : [6, 4]);
      context.beginPath();
      context.moveTo(x(from), top + 15);
      context.bezierCurveTo(
        x(from),
        (top + bottom) / 2,
        x(to),
        (top + bottom) / 2,
        x(to),
        bottom - 15,
      );
      context.stroke();
    });
    context.setLineDash([]);
    const word = (text, place, y, color) => {
      context.fillStyle = colors.paper;
      context.fillRect(x(place) - box / 2, y - 15, box, 30);
      context.lineWidth = 1.5;
      context.strokeStyle = color;
      context.strokeRect(x(place) - box / 2, y - 15, box, 30);
      context.fillStyle = colors.ink;
      context.fillText(cut(text, box / 8), x(place), y);
    };
    words.forEach((text, place) => word(text, place, top, colors.muted));
    context.textAlign = "left";
    context.fillStyle = colors.muted;
    context.fillText(say("first_order"), 2, 12);
    context.fillText(say("change_row"), 2, height - 12);
    context.textAlign = "center";
    order.forEach((from, to) => {
      const same = change[to] < SAME;
      word(words[from], to, bottom, same ? colors.a : colors.b);
      context.fillStyle = same ? colors.a : colors.b;
      context.fillText(same ? "0" : Number(change[to].toPrecision(2)), x(to), bottom + 28);
    });
  };
}

const cut = (text, room) =>
  text.length > room ? `${text.slice(0, Math.max(1, Math.floor(room) - 1))}…` : text;

function draw(stage, data, s, say) {
  const { words, order, change, before, after, columns } = data;
  const changed = change.filter((value) => value >= SAME).length;
  stage.paint(
    "shuffle",
    {
      title: say("shuffle_title"), height: 230,
      label: say("shuffle_label", {
        order: order.map((from) => words[from]).join(" "),
        changed,
        count: words.length,
      }),
    },
    lines(data, say),
  );
  stage.note(
    say(changed ? "note_changed" : "note_same", {
      changed,
      count: words.length,
      most: Math.max(...change),
    }),
  );
  const range = spread([...before, ...after]);
  const map = (name, values, names) =>
    stage.heatmap(name, {
      title: say(name), half: true, rows: words.length, cols: columns, values, range,
      xLabel: say("dimension"), yLabel: say("word"), palette: "diverging",
      rowLabel: (at) => cut(names[at], 6),
    });
  map("output_first", before, words);
  map(
    "output_shuffled",
    after,
    order.map((from) => words[from]),
  );
}

function spread(rows) {
  const most = Math.max(...rows.flat().map(Math.abs));
  return [-most, most];
}

function table(data) {
  const { words, order, change, before, after, columns } = data;
  const dims = Array.from({ length: columns }, (_, i) => i);
  return {
    head: [
      "word",
      "place",
      "place_shuffled",
      "change",
      ...dims.map((i) => `first_${i}`),
      ...dims.map((i) => `shuffled_${i}`),
    ],
    rows: order.map((from, to) => [
      words[from],
      from,
      to,
      change[to],
      ...before[from],
      ...after[to],
    ]),
  };
}

function python(s) {
  const words = split(sentence(s));
  const name = shown(s);
  const absolute = catalogue[name].family === "absolute";
  const gated = name === "forget_gate";
  return [
    "import torch",
    "import posenc as pe",
    "",
    `words = ${JSON.stringify(words)}`,
    `order = torch.tensor(${JSON.stringify(ordered(words.length, s.order))})  # shuffled`,
    ...constructed(name, sized(s, words)),
    `i = torch.arange(1, ${sized(s, words).d + 1}, dtype=torch.float64)`,
    "x = torch.stack([(1.7 * (words.index(word) + 1) * i).cos() for word in words])[None]",
    "",
    "",
    "def read(x):  # one head of self-attention, q = k = v",
    ...(absolute ? ["    x = encoding.embed(x, positions=None)"] : []),
    "    q = x[:, None].expand(-1, encoding.heads or 1, -1, -1)",
    ...(gated ? [`    context = pe.Context(x=x)`] : []),
    ...(absolute
      ? [`    return pe.attend(q, q, q, causal=${s.causal ? "True" : "False"})[0, 0]`]
      : [
          `    return pe.attend(q, q, q, encoding, causal=${s.causal ? "True" : "False"}${gated ? ", context=context" : ""})[0, 0]`,
        ]),
    "",
    "",
    "before, after = read(x), read(x[:, order])",
    "change = (after - before[order]).abs().amax(-1).detach()",
    "print([(words[n], round(float(c), 6)) for n, c in zip(order, change)])",
    "",
  ].join("\n");
}

export const panel = {
  id: "permutation", lesson: "learn/why_position", compute, draw, table, python,
  uses: (s) =>
    s.with ? ["a", "d", ...reads(s, s.a).filter((key) => key !== "length")] : ["a", "d"],
  formula: (_, data) => {
    const same = !data?.change.some((value) => value >= SAME);
    return [[`Attn(P X) ${same ? "=" : "≠"} P Attn(X)`, "P^⊤ P = I"]];
  },
  controls: [
    { id: "words", kind: "text", value: "" },
    { id: "order", kind: "range", min: 0, max: (s) => orders(sentence(s)) - 1, value: 0, play: true },
    { id: "with", kind: "toggle", value: false },
    { id: "causal", kind: "toggle", value: false },
  ],
  text: {
    en: {
      title: "Why position?",
      question:
        "The words of a sentence change places. Nothing says where a word stands, and every word sees all the others. Which words get another output?",
      answer:
        "None: attention without position treats the sentence as a bag, so each word keeps its output and the rows only move.",
      more:
        "Position makes order count; so does a causal mask, because a later word sees more.",
      words: "Sentence (2 to 12 words)",
      words_hint: SENTENCES.en,
      order: "Order, by its number",
      with: "With position (encoding A)",
      causal: "Causal mask",
      shuffle_title: "Each word before and after the shuffle",
      shuffle_label:
        "After the shuffle: {order}. The output of {changed} of {count} words changes.",
      first_order: "the sentence",
      change_row: "largest change of the word's output",
      note_same:
        "All {count} outputs are the same vectors as before, in another order: from the outputs nobody can tell how the sentence began.",
      note_changed: "{changed} of {count} words got another output; the largest change is {most}.",
      output_first: "Outputs, first order",
      output_shuffled: "Outputs, shuffled",
      dimension: "dimension",
      word: "word",
      few: "At least 2 words are needed to change places; the sentence has {count}.",
      many: "The sentence has {count} words: at most {most} are shown.",
      causal_only:
        "{name} is made for causal attention: switch the causal mask on, or choose another encoding A.",
    },
    zh: {
      title: "为什么需要位置？",
      question:
        "把一句话的词打乱。没有任何东西说明词在哪里，而且每个词都看得见所有的词。哪些词的输出会变？",
      answer:
        "都不变：没有位置信息的注意力把句子当成一个袋子，每个词的输出照旧，只是行换了位置。",
      more:
        "位置编码让顺序起作用；因果掩码也能，因为越靠后的词看到的越多。",
      words: "句子（2 到 12 个词）",
      words_hint: SENTENCES.zh,
      order: "第几种顺序",
      with: "加入位置（编码 A）",
      causal: "因果掩码",
      shuffle_title: "每个词在打乱前后的位置",
      shuffle_label: "打乱后：{order}。{count} 个词中有 {changed} 个的输出变了。",
      first_order: "原句",
      change_row: "该词输出的最大变化",
      note_same:
        "{count} 个输出向量与原来完全相同，只是换了顺序：只看输出，谁也说不出原句是怎样排列的。",
      note_changed: "{count} 个词中有 {changed} 个得到了不同的输出，最大变化为 {most}。",
      output_first: "输出：原来的顺序",
      output_shuffled: "输出：打乱之后",
      dimension: "维度",
      word: "词",
      few: "句子只有 {count} 个词：至少要有 2 个才能换位置。",
      many: "句子有 {count} 个词：最多显示 {most} 个。",
      causal_only: "{name} 只用于因果注意力：请打开因果掩码，或换一个编码 A。",
    },
  },
};
