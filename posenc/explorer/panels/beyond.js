import { dial } from "#core/dial.js";
import { short } from "#core/numbers.js";
import data from "#data/compare.js";
import { HEADS, NAMES, WIDTH, frequencies, inPython, lossAt, rowOf } from "#math/compared.js";
import { reach } from "#math/reach.js";

const { trainLength: TRAINED, lengths: LENGTHS } = data;
const LONGEST = LENGTHS.at(-1);
const SEEDS = Object.keys(data.encodings.none.loss[TRAINED].seeds);
// The same encoding has the same look in every picture.
export const LOOKS = {
  none: { color: "muted" },
  learned: { color: "ink" },
  sinusoidal: { color: "ink", dash: [7, 4] },
  rotary: { color: "a" },
  alibi: { color: "c" },
  t5: { color: "d2" },
};

function compute(s) {
  const inverse = frequencies();
  const rows = Object.fromEntries(NAMES.map((name) => [name, rowOf(name, s.read, s.head)]));
  return {
    rows,
    inverse: Array.from(inverse),
    shown: NAMES.filter((name) => s[name]),
    pairs: reach(inverse, inverse, TRAINED, s.read),
    losses: Object.fromEntries(NAMES.map((name) => [name, lossAt(name, s.read)])),
  };
}

function draw(stage, found, s, say) {
  const { shown, rows, pairs } = found;
  const losses = (name) => LENGTHS.map((length) => data.encodings[name].loss[length]);
  const marks = [{ x: TRAINED, label: say("trained_to", { length: TRAINED }) }];
  stage.curves("losses", {
    title: say("losses_figure"), x: LENGTHS, marks,
    series: shown.map((name) => ({ label: say(name), y: losses(name).map(({ mean }) => mean), width: 2.25, ...LOOKS[name] })),
    xLabel: say("bytes"), yLabel: say("loss"),
    lit: LENGTHS.includes(s.read) ? LENGTHS.indexOf(s.read) : null,
    pick: (index) => ({ read: LENGTHS[index] }),
  });
  const told = { count: pairs.filter(({ fresh }) => fresh).length, pairs: pairs.length, read: s.read, head: s.head };
  stage.paint(
    "dials",
    { title: say("dials_figure", told), label: say("dials_label", told), half: true, height: 150, drag: { x: "read" } },
    (ctx, width, height, colors) => paintDials(ctx, width, height, colors, found),
  );
  const keys = Array.from({ length: s.read }, (_, n) => n);
  stage.curves("rows", {
    title: say("rows_figure", { query: s.read - 1, head: s.head }), half: true, x: keys,
    series: shown.map((name) => ({ label: say(name), y: rows[name].weights, width: 1.5, ...LOOKS[name] })),
    xLabel: say("key"), yLabel: say("weight"),
    marks: s.read > TRAINED ? [{ x: s.read - TRAINED, label: say("nearest", { length: TRAINED }) }] : [],
  });
  stage.table(
    [say("encoding"), ...LENGTHS.map((length) => say("loss_at", { length })), say("verdict"), say("new_share", told)],
    shown.map((name) => [
      say(name),
      ...losses(name).map(({ mean, high }) => `${mean.toFixed(3)} ± ${(high - mean).toFixed(3)}`),
      say(data.encodings[name].category),
      `${(100 * newShare(rows[name])).toFixed(1)}%`,
    ]),
  );
  const { rotary } = data.encodings;
  const rise = (rotary.loss[LONGEST].mean - rotary.loss[TRAINED].mean).toFixed(1);
  stage.note(say("verdicts", { length: TRAINED, near: LENGTHS[1], far: LONGEST, rise }));
  const { depth, batch, steps } = data.model;
  stage.note(say("protocol", { targets: data.targets, seeds: SEEDS.length, steps, batch, depth, heads: HEADS, width: WIDTH }));
  stage.note(say("command", { command: data.command }));
  const [, ...beyond] = LENGTHS;
  stage.table(
    [say("rotary"), ...beyond.map((length) => say("loss_at", { length }))],
    Object.entries(data.methods).map(([method, loss]) => [
      say(`method_${method}`),
      ...beyond.map((length) => loss[length].toFixed(3)),
    ]),
  );
  stage.note(say("methods", { farthest: TRAINED - 1 }));
}

/** How much of a row rests on what training never showed. */
const newShare = ({ weights, fresh }) =>
  weights.reduce((sum, weight, n) => (fresh[n] ? sum + weight : sum), 0);

function paintDials(ctx, width, height, colors, { pairs, inverse }) {
  const room = width / pairs.length;
  const radius = Math.min(room / 2 - 10, height / 2 - 18);
  ctx.font = "12px system-ui, sans-serif";
  ctx.textAlign = "center";
  ctx.textBaseline = "bottom";
  pairs.forEach((pair, i) => {
    const x = (i + 0.5) * room;
    dial(ctx, [x, radius + 6], radius, pair, colors);
    ctx.fillStyle = colors.muted;
    ctx.fillText(short(Number(inverse[i].toPrecision(3))), x, height - 4);
  });
}

function python(s) {
  const shown = NAMES.filter((name) => s[name]);
  const made = shown.flatMap((name) => [...inPython(name), `encodings["${name}"] = encoding`]);
  return `import torch
import posenc as pe
from posenc.analysis import measure

# The losses are measured on trained models, in a few minutes:
# ${data.command}
trained, read = ${TRAINED}, ${s.read}

rope = pe.Rotary(${WIDTH})
angles = measure.frequencies(rope)[0] * (read - 1)  # of the farthest tokens
new = measure.budget(rope, trained, read).new_angles[0]
print("pairs that meet new angles:", new.tolist())

encodings = {}
${made.join("\n")}


def row(encoding):  # attention of the last token, where all tokens are ones
    if encoding.family == "absolute":
        x = encoding.embed(torch.ones(1, read, ${WIDTH * HEADS}, dtype=torch.float64), positions=None)
        return pe.scores(x[:, None], x[:, None], None, causal=True)[0, 0, -1].softmax(-1)
    x = torch.ones(1, ${HEADS}, read, ${WIDTH}, dtype=torch.float64)
    return pe.scores(x, x, encoding, causal=True)[0, ${s.head}, -1].softmax(-1)


def fresh(encoding):  # of each key, whether training never showed what is said of it
    unseen = measure.budget(encoding, trained, read).unseen
    return unseen | unseen[-1] if encoding.family == "absolute" else unseen.flip(0)


rows = {name: row(encoding).detach() for name, encoding in encodings.items()}
for name, encoding in encodings.items():
    print(name, "rests on what training never showed by", rows[name][fresh(encoding)].sum())
`;
}

export const panel = {
  id: "beyond",
  lesson: "learn/extrapolation",
  uses: [],
  formula: [
    [`loss = -{1}/{${data.targets}} ∑_{t=1}^{${data.targets}} ln Pr_t`],
    [`θ_i = 10000^{-2i/${WIDTH}}`, `(n - 1) θ_i > ${TRAINED} θ_i ∧ ${TRAINED - 1} θ_i < 2 π  ⇒  new_i`],
  ],
  text: {
    en: {
      title: "Beyond the trained length",
      question: "Six models differ in nothing but their encoding. All were trained on 64 bytes of text: which of them read 512 as well?",
      answer: "Only ALiBi's: those with T5 and without position get a little worse, RoPE's holds to 128 and is among the worst at 512, and those with the learned table and the sinusoid break at once.",
      more: "This is one size of model and one budget. How far RoPE holds depends on the size of a head: these have 8 dimensions, and with 16 it breaks at once. Where every far distance counts as one that training showed, the same weights of RoPE hold: the second table. And to a model without position nothing is new, yet it degrades. New is not yet bad: ALiBi's larger penalties go on along the line that training showed, by which each byte farther divides a weight by the same number, and far bytes can only fade. Its steep heads give them next to nothing; head 3 gives three quarters of its weight to what lies beyond 64, and the loss holds.",
      read: "Length that is read (bytes)",
      head: "Head",
      none: "no position",
      learned: "learned table",
      sinusoidal: "sinusoid",
      rotary: "RoPE",
      alibi: "ALiBi",
      t5: "T5",
      losses_figure: "Loss on the same bytes, with more and more text before them",
      bytes: "bytes read",
      loss: "loss (nats per byte)",
      trained_to: "trained to {length}",
      dials_figure: "RoPE's {pairs} pairs at {read} bytes, radians per byte below",
      dials_label: "Dials of RoPE's {pairs} pairs at {read} bytes: {count} of them meet angles that training never showed",
      rows_figure: "Attention of the last byte ({query}) where all bytes are alike, head {head}",
      key: "key position",
      weight: "weight",
      nearest: "the nearest {length}",
      encoding: "encoding",
      loss_at: "loss at {length}",
      verdict: "verdict",
      holds: "holds",
      degrades: "degrades",
      breaks: "breaks",
      undecided: "undecided",
      new_share: "weight of head {head} at {read} on what training never showed",
      verdicts: "Verdicts are the lab's, by 95% intervals. breaks: at {near} bytes, twice the trained length, the loss is more than 1 nat higher than at {length}. degrades: it is not, but at {far} bytes more than 0.05 higher. holds: neither. So RoPE, which holds to {near} and is {rise} nats worse at {far}, counts as degrading.",
      protocol: "Loss of the same {targets} bytes at the end of each stretch of test text, read with so many bytes; mean of {seeds} seeds with its 95% interval. Models of {depth} layers with {heads} heads of {width}, {steps} steps of {batch} examples. Between the measured lengths the lines are straight. The attention is the page's own arithmetic: T5's numbers and the learned table's stand for trained ones.",
      command: "Measured by: {command}",
      method_none: "as it was trained",
      method_linear: "linear",
      method_yarn: "YaRN",
      method_ntk: "NTK",
      method_rerope: "ReRoPE",
      methods: "The trained models of RoPE with other angles under the same weights, set for each length and not trained for it; ReRoPE counts every distance beyond {farthest} as {farthest}. Measured by tools/compared_losses.py.",
    },
    zh: {
      title: "超出训练长度",
      question: "六个模型除了位置编码没有任何不同，都在 64 字节的文本上训练：哪些读 512 字节时一样好？",
      answer: "只有 ALiBi：T5 与无位置编码变差一些，RoPE 到 128 仍保持，到 512 时已与最差的相当，可学习的表与正弦编码一超出就失效。",
      more: "这只是一种模型大小、一种训练预算。RoPE 能保持多远取决于头的大小：这里每个头 8 维，换成 16 维一超出就失效。把远处的距离都当作训练中见过的距离，同样的 RoPE 权重就能保持，见第二张表。而对没有位置编码的模型来说没有什么是新的，它照样变差。新的也未必有害：ALiBi 更大的惩罚仍在训练见过的直线上，每远一个字节，权重都照旧除以同一个数，所以远处只会越来越淡。陡的头几乎不给远处权重；第 3 头有四分之三的权重落在 64 之外，损失同样保持。",
      read: "读入的长度（字节）",
      head: "注意力头",
      none: "无位置编码",
      learned: "可学习的表",
      sinusoidal: "正弦",
      rotary: "RoPE",
      alibi: "ALiBi",
      t5: "T5",
      losses_figure: "同一批字节的损失，前面的文本越来越长",
      bytes: "读入的字节数",
      loss: "损失（nat/字节）",
      trained_to: "训练到 {length}",
      dials_figure: "读 {read} 字节时 RoPE 的 {pairs} 个维度对，下面是每字节转过的弧度",
      dials_label: "读 {read} 字节时 RoPE 的 {pairs} 个维度对：{count} 个遇到训练中从未出现的角度",
      rows_figure: "所有字节都相同时，最后一个字节（{query}）的注意力，第 {head} 头",
      key: "键的位置",
      weight: "权重",
      nearest: "最近的 {length} 个",
      encoding: "编码",
      loss_at: "{length} 处的损失",
      verdict: "结论",
      holds: "保持",
      degrades: "变差",
      breaks: "失效",
      undecided: "未定",
      new_share: "读 {read} 字节时，第 {head} 头落在训练从未出现之处的权重",
      verdicts: "结论按实验室的规则和 95% 区间得出。失效：读 {near} 字节（训练长度的两倍）时，损失比 {length} 字节处高出 1 nat 以上。变差：没有失效，但读 {far} 字节时高出 0.05 以上。保持：两者都不是。所以 RoPE 到 {near} 保持，到 {far} 时高出 {rise} nat，仍归入“变差”。",
      protocol: "每段测试文本末尾的同样 {targets} 个字节，读入这么多字节时的损失；{seeds} 个种子的均值与 95% 区间。模型有 {depth} 层，{heads} 个 {width} 维的头，训练 {steps} 步，每步 {batch} 个样本。测量长度之间用直线相连。注意力由本页自己计算：T5 的数和可学习的表用固定的数代替训练结果。",
      command: "测量命令：{command}",
      method_none: "照训练时的样子",
      method_linear: "线性",
      method_yarn: "YaRN",
      method_ntk: "NTK",
      method_rerope: "ReRoPE",
      methods: "训练好的 RoPE 模型，权重不变，只换角度：按每个长度设定，不再训练；ReRoPE 把超过 {farthest} 的距离都当作 {farthest}。由 tools/compared_losses.py 测得。",
    },
  },
  controls: [
    {
      id: "read", kind: "range", min: TRAINED, max: LONGEST, step: 1, scale: "log", value: LONGEST,
      // A chapter that has not told its answer knows no longer text.
      show: (s) => s.told !== false,
    },
    { id: "head", kind: "range", min: 0, max: HEADS - 1, step: 1, value: 0 },
    ...NAMES.map((id) => ({ id, kind: "toggle", value: true })),
  ],
  compute,
  draw,
  table() {
    const head = ["encoding", "bytes read", "mean loss", "low", "high", ...SEEDS.map((seed) => `seed ${seed}`)];
    const rows = NAMES.flatMap((name) =>
      LENGTHS.map((length) => {
        const { mean, low, high, seeds } = data.encodings[name].loss[length];
        return [name, length, mean, low, high, ...SEEDS.map((seed) => seeds[seed])];
      }),
    );
    return { head, rows };
  },
  python,
};
