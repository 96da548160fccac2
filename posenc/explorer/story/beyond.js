import { dial } from "#core/dial.js";
import { HALF, LONGEST, across, lengthPlot, lossOf, two } from "#core/length_plot.js";
import { short } from "#core/numbers.js";
import { key, strip } from "#core/seen.js";
import data from "#data/compare.js";
import { NAMES, frequencies } from "#math/compared.js";
import { panel } from "#panels/beyond.js";

const { trainLength: TRAINED, lengths: LENGTHS } = data;
const ROWS = ["learned", "rotary", "t5", "alibi"];
const POINTS = 13;
const LINE = 14;
// The pair that the formula follows: the fastest that meets new angles.
const PAIR = 2;

// Of RoPE's weights, where no distance is beyond those of training.
const CLIPPED = data.methods.rerope[LONGEST];

/** Where things stand in a picture of this width, in CSS pixels. */
function layout(width) {
  if (width < 520)
    return {
      height: 464,
      plot: { left: 30, right: width - 112, top: 22, bottom: 146 },
      dials: { left: 0, top: 186, room: width / 4, columns: 4, radius: 23 },
      rows: { left: 0, right: width, top: 280, step: 41 },
      foot: 456,
    };
  return {
    height: 484,
    plot: { left: 34, right: width - 128, top: 20, bottom: 212 },
    dials: { left: 0, top: 258, room: 100, columns: 2, radius: 36 },
    rows: { left: 232, right: width, top: 258, step: 50 },
    foot: 475,
  };
}

/** The length is taken anywhere on the curves, and follows the pointer. */
function grab(x, y, width) {
  const { plot } = layout(width);
  if (y < plot.top - 12 || y > plot.bottom + 22 || x < plot.left - 12 || x > plot.right + 12) return null;
  const first = across(plot, TRAINED);
  return (to) => ({ read: TRAINED * (LONGEST / TRAINED) ** ((to - first) / (plot.right - first)) });
}

function draw(stage, found, s, say) {
  const { height } = layout(stage.width);
  const { told } = s;
  // Before the answer the length is that of training, and nothing can be new.
  const read = told ? s.read : TRAINED;
  const shown = told ? found : panel.compute({ ...s, read });
  const hands = told ? { grab, steps: { x: "read" } } : {};
  const label = told
    ? say("picture_label", { read, loss: two(found.losses.rotary.value) })
    : say("picture_before", { read });
  stage.paint("beyond", { height, label, ...hands }, (ctx, width, _, colors) => {
    const { plot, dials, rows, foot } = layout(width);
    lengthPlot(ctx, plot, found, s, colors, say);
    pairs(ctx, dials, shown, colors, say);
    strips(ctx, rows, shown, { ...s, read }, colors, say);
    if (told) key(ctx, [0, foot], { seen: say("seen"), unseen: say("unseen"), wedge: say("wedge") }, colors);
  });
}

function pairs(ctx, { left, top, room, columns, radius }, found, colors, say) {
  caption(ctx, say("dials_caption"), left, top, colors);
  found.pairs.forEach((pair, i) => {
    const x = left + (0.5 + (i % columns)) * room;
    const y = top + radius + 8 + Math.floor(i / columns) * (2 * radius + 24);
    dial(ctx, [x, y], radius, pair, colors);
    ctx.fillStyle = colors.muted;
    ctx.textAlign = "center";
    ctx.textBaseline = "top";
    ctx.fillText(String(Math.round((2 * Math.PI) / pair.step)), x, y + radius + 6);
  });
}

/** How the last byte attends to those before it, and where training never showed how far they are. */
function strips(ctx, { left, right, top, step }, { rows }, { told, read }, colors, say) {
  caption(ctx, say("rows_caption", { read }), left, top, colors);
  ROWS.forEach((name, i) => {
    const foot = top + (i + 1) * step - 2;
    const high = step - LINE - 4;
    strip(ctx, { left, right, foot, high }, rows[name], colors);
    ctx.font = "12px system-ui, sans-serif";
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    ctx.fillStyle = colors.ink;
    ctx.fillText(told && read > TRAINED ? `${say(name)}${say(`new_${name}`)}` : say(name), left, foot - high - 1);
  });
}

function caption(ctx, words, left, top, colors) {
  ctx.font = "12px system-ui, sans-serif";
  ctx.fillStyle = colors.muted;
  ctx.textAlign = "left";
  ctx.textBaseline = "bottom";
  ctx.fillText(words, left, top - 2);
}

function formula({ told }, found) {
  if (!told || found === null) return [panel.formula[0]];
  const { seen, reached, fresh } = found.pairs[PAIR];
  const angle = (value) => short(Number(value.toPrecision(3)));
  const farthest = Math.round(reached / frequencies()[PAIR]);
  return [
    panel.formula[0],
    [panel.formula[1][0]],
    [
      `#a{${TRAINED - 1} θ_${PAIR} = ${angle(seen)}}`,
      `#${fresh ? "unseen" : "a"}{${farthest} θ_${PAIR} = ${angle(reached)}}`,
    ],
  ];
}

/** The losses of all encodings, and what a longer text brings to each. */
function facts(say) {
  const byEnd = [...NAMES].sort((one, other) => lossOf(one, LONGEST) - lossOf(other, LONGEST));
  return {
    title: say("facts_title"),
    head: [say("encoding"), ...LENGTHS.map(String), say("brings", { length: TRAINED })],
    rows: byEnd.map((name) => [say(name), ...LENGTHS.map((length) => two(lossOf(name, length))), say(`why_${name}`)]),
  };
}

export const chapter = {
  id: "beyond",
  panel,
  edges: {
    top: `+${HALF}`, middle: two(lossOf("rotary", TRAINED)), bottom: `−${HALF}`,
    left: String(TRAINED), right: String(LONGEST),
  },
  controls: ["read"],
  formula,
  symbols: ({ told }) => (told ? ["symbols"] : []),
  facts,
  predict: { sketch: POINTS, half: HALF },
  draw,
  text: {
    en: {
      lead: `Six small models, alike but for their encoding, were trained on ${TRAINED} bytes of text and then read up to ${LONGEST}. The dials are RoPE's pairs, each with the step of one byte as a grey wedge, and the rows show where the last byte looks.`,
      question: `RoPE knows distance alone, and each model predicts the same bytes, with more and more text before them. How does RoPE's loss go on from ${TRAINED} bytes at the left to ${LONGEST} at the right? The middle line is its loss at ${TRAINED}; up is worse, the upper edge by ${HALF} nats.`,
      answer: `It holds to twice the trained length (${two(lossOf("rotary", 128))}), then climbs to ${two(lossOf("rotary", LONGEST))} at ${LONGEST}, worse than without any position (${two(lossOf("none", LONGEST))}): two of its four pairs now stand at angles, in red, that training never showed. They are the reason: where every distance beyond ${TRAINED - 1} counts as ${TRAINED - 1}, the same weights have ${two(CLIPPED)}. Drag the length back, and the red goes.`,
      fails: "But reading farther brings what training never showed: rows that nobody trained, and angles that some pairs never reached.",
      leads: "Angles can be changed: turn the pairs more slowly, and red becomes blue.",
      none: "none",
      learned: "learned",
      new_learned: ": rows that were never trained",
      new_rotary: ": angles that were never met",
      new_t5: ": far bytes share one trained bucket",
      new_alibi: ": larger penalties, hardly any weight",
      read_at: "{read} bytes",
      losses_at: "at {read} bytes",
      trained_to: "{length} (trained)",
      loss_shaded: "loss (nats per byte; shaded: 95%)",
      dials_caption: "RoPE's pairs, bytes per turn",
      rows_caption: "Attention of the last of {read} like bytes",
      seen: "seen in training",
      unseen: "never seen",
      wedge: "one byte's step",
      symbols: "θ_i: radians by which a byte turns pair i. The last line is pair 2 at the farthest distance, in training and now.",
      facts_title: "All six, and why",
      brings: "what a text beyond {length} brings",
      why_alibi: "Larger penalties on the line that training showed: each byte farther divides a weight by the same number as ever, so far bytes can only fade. In the steep head shown here they have next to no weight. In the shallowest head three quarters of the weight lie beyond 64, and the loss holds all the same.",
      why_t5: "Nothing new: all far bytes share the last bucket, which was trained. But attention is spread over more keys. How much of the rise is due to that is not measured.",
      why_none: "Nothing new. Here, too, attention is spread over more keys, and how much of the rise is due to that is not measured.",
      why_learned: "Rows that training never reached: no gradient went through them.",
      why_rotary: "Angles of the two slow pairs. At 128 some are new already and the loss still holds: how far is too far, only measuring tells.",
      why_sinusoidal: "New vectors. Each number stays between -1 and 1, but the slow waves leave the arc that training showed, and the weights meet combinations that they never learned. At once, as the loss says.",
      picture_label: "Loss of six encodings against the length that is read, now {read} bytes, where RoPE has {loss}. Left and right change the length.",
      picture_before: "Loss of six encodings at {read} bytes, as they were trained; how it goes on is hidden until you predict.",
    },
    zh: {
      lead: `六个小模型只有位置编码不同，都在 ${TRAINED} 字节的文本上训练，再读最多 ${LONGEST} 字节。表盘是 RoPE 的维度对，灰色扇形是一个字节转过的一步；下面几行是最后一个字节看向哪里。`,
      question: `RoPE 只知道距离；各个模型预测的是同一批字节，前面的文本越来越长。从左端的 ${TRAINED} 字节到右端的 ${LONGEST} 字节，RoPE 的损失会怎样变化？中线是它在 ${TRAINED} 字节处的损失，越往上越差，上边缘多 ${HALF} nat。`,
      answer: `到训练长度的两倍仍然保持（${two(lossOf("rotary", 128))}），到 ${LONGEST} 时升到 ${two(lossOf("rotary", LONGEST))}，比没有位置编码（${two(lossOf("none", LONGEST))}）还差：四个维度对中有两个转到了训练中从未出现的角度（红色）。原因就在这里：把超过 ${TRAINED - 1} 的距离都当作 ${TRAINED - 1}，同样的权重损失为 ${two(CLIPPED)}。把长度往回拖，红色就消失。`,
      fails: "但是读得更远，就会遇到训练从未给出的东西：没人训练过的行，有些维度对从未到过的角度。",
      leads: "角度可以改：让维度对转得慢一些，红色就会变成蓝色。",
      none: "无位置",
      learned: "可学习",
      new_learned: "：从未训练过的行",
      new_rotary: "：从未遇到的角度",
      new_t5: "：远处的字节共用一个训练过的桶",
      new_alibi: "：惩罚更大，几乎没有权重",
      read_at: "{read} 字节",
      losses_at: "{read} 字节处",
      trained_to: "{length}（训练）",
      loss_shaded: "损失（nat/字节；色带：95% 区间）",
      dials_caption: "RoPE 的维度对，转一圈的字节数",
      rows_caption: "{read} 个相同字节中最后一个的注意力",
      seen: "训练中见过",
      unseen: "从未见过",
      wedge: "一个字节的一步",
      symbols: "θ_i：一个字节使第 i 对转过的弧度。最后一行是第 2 对在最远距离处的角度：训练时，和现在。",
      facts_title: "六种编码，各有原因",
      brings: "超过 {length} 的文本带来什么",
      why_alibi: "更大的惩罚，但仍在训练见过的那条直线上：每远一个字节，权重都照旧除以同一个数，所以远处只会越来越淡。图中这个陡的头几乎不给远处权重；最平缓的头有四分之三的权重落在 64 之外，损失同样保持。",
      why_t5: "没有新东西：远处的字节都用最后一个桶，它是训练过的。但注意力分散到了更多的键上；上升有多少是由此而来，没有测量。",
      why_none: "没有新东西。注意力同样分散到了更多的键上；上升有多少是由此而来，也没有测量。",
      why_learned: "训练从未到达的行：没有梯度经过它们。",
      why_rotary: "两个慢的维度对的角度。到 128 时已有一些是新的，损失却还保持：多远才算太远，只有测量才知道。",
      why_sinusoidal: "新的向量。每个数都在 -1 与 1 之间，但慢的波离开了训练见过的那段弧，权重遇到从未学过的组合。一超出就失效，损失说明了这一点。",
      picture_label: "六种编码的损失随读入长度的变化，现在读 {read} 字节，RoPE 的损失为 {loss}。左右键改变长度。",
      picture_before: "六种编码在 {read} 字节（训练长度）处的损失；之后怎样变化，等你猜过才显示。",
    },
  },
};
