import { dial } from "#core/dial.js";
import { guessed } from "#core/guess.js";
import data from "#data/compare.js";
import { NAMES } from "#math/compared.js";
import { LOOKS, panel } from "#panels/beyond.js";

const { trainLength: TRAINED, lengths: LENGTHS } = data;
const LONGEST = LENGTHS.at(-1);
const ROWS = ["learned", "rotary", "t5", "alibi"];
// Nats per byte: what the axis shows, and what the upper half of a drawn guess stands for.
const [LEAST, MOST] = [1, 4];
const HALF = 2.5;
const POINTS = 13;
const LINE = 14;

const at = (name, length) => data.encodings[name].loss[length].mean;
const two = (value) => value.toFixed(2);
// Of RoPE's weights, where no distance is beyond those of training.
const CLIPPED = data.methods.rerope[LONGEST];

/** Where things stand in a picture of this width, in CSS pixels. */
function layout(width) {
  if (width < 520)
    return {
      height: 384,
      plot: { left: 30, right: width - 112, top: 22, bottom: 150 },
      dials: { left: 0, top: 188, room: width / 4, columns: 4, radius: 25 },
      rows: { left: 0, right: width, top: 280, step: 26 },
    };
  return {
    height: 420,
    plot: { left: 34, right: width - 128, top: 20, bottom: 212 },
    dials: { left: 0, top: 254, room: 96, columns: 2, radius: 29 },
    rows: { left: 232, right: width, top: 254, step: 42 },
  };
}
// A little of what is before the trained length shows, too.
const share = (length) => 0.06 + (0.94 * Math.log(length / TRAINED)) / Math.log(LONGEST / TRAINED);
const across = ({ left, right }, length) => left + (right - left) * share(length);
const down = ({ top, bottom }, loss) => bottom - ((bottom - top) * (loss - LEAST)) / (MOST - LEAST);
const inside = ({ top, bottom }, y) => Math.min(Math.max(y, top), bottom);

/** The length is taken anywhere on the curves, and follows the pointer. */
function grab(x, y, width) {
  const { plot } = layout(width);
  if (y < plot.top - 12 || y > plot.bottom + 22 || x < plot.left - 12 || x > plot.right + 12) return null;
  const first = across(plot, TRAINED);
  return (to) => ({ read: TRAINED * (LONGEST / TRAINED) ** ((to - first) / (plot.right - first)) });
}

function draw(stage, found, s, say) {
  const { height } = layout(stage.width);
  const { read, told } = s;
  stage.paint(
    "beyond",
    {
      height, grab, steps: { x: "read" },
      label: say("picture_label", { read, loss: told ? two(found.losses.rotary.value) : "?" }),
    },
    (ctx, width, _, colors) => {
      const { plot, dials, rows } = layout(width);
      axes(ctx, plot, colors, say);
      if (told) curves(ctx, plot, colors);
      else unknown(ctx, plot, colors);
      if (Array.isArray(s.guess)) guessed(ctx, drawn(plot, s.guess), colors, say);
      names(ctx, plot, found, s, colors, say);
      lit(ctx, plot, read, colors, say);
      pairs(ctx, dials, found, told, colors, say);
      strips(ctx, rows, found, told, colors, say);
    },
  );
}

function axes(ctx, plot, colors, say) {
  ctx.font = "12px system-ui, sans-serif";
  ctx.fillStyle = colors.muted;
  ctx.strokeStyle = colors.grid;
  ctx.lineWidth = 1;
  ctx.textBaseline = "middle";
  ctx.textAlign = "right";
  for (let loss = LEAST; loss <= MOST; loss += 1) {
    const y = down(plot, loss);
    ctx.beginPath();
    ctx.moveTo(plot.left, y);
    ctx.lineTo(plot.right, y);
    ctx.stroke();
    ctx.fillText(String(loss), plot.left - 7, y);
  }
  ctx.textBaseline = "top";
  ctx.textAlign = "center";
  for (const length of LENGTHS) ctx.fillText(String(length), across(plot, length), plot.bottom + 9);
  ctx.textAlign = "left";
  ctx.fillText(say("bytes"), plot.right + 16, plot.bottom + 9);
  ctx.fillText(say("loss"), 0, 0);
  ctx.fillStyle = colors.a;
  ctx.fillRect(plot.left, plot.bottom - 2, across(plot, TRAINED) - plot.left, 4);
}

function curves(ctx, plot, colors) {
  for (const name of NAMES) {
    const { color, dash = [] } = LOOKS[name];
    const places = LENGTHS.map((length) => [across(plot, length), data.encodings[name].loss[length]]);
    ctx.strokeStyle = ctx.fillStyle = colors[color];
    ctx.globalAlpha = 0.16;
    ctx.beginPath();
    for (const [x, { low }] of places) ctx.lineTo(x, inside(plot, down(plot, low)));
    for (const [x, { high }] of [...places].reverse()) ctx.lineTo(x, inside(plot, down(plot, high)));
    ctx.closePath();
    ctx.fill();
    ctx.globalAlpha = 1;
    ctx.lineWidth = name === "rotary" ? 3.5 : 1.75;
    ctx.setLineDash(dash);
    ctx.beginPath();
    for (const [x, { mean }] of places) ctx.lineTo(x, down(plot, mean));
    ctx.stroke();
    ctx.setLineDash([]);
    for (const [x, { mean }] of places) dot(ctx, x, down(plot, mean), name === "rotary" ? 4.5 : 3);
  }
}

function dot(ctx, x, y, radius) {
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
  ctx.fill();
}

function unknown(ctx, plot, colors) {
  for (const name of NAMES) {
    ctx.fillStyle = colors[LOOKS[name].color];
    dot(ctx, across(plot, TRAINED), down(plot, at(name, TRAINED)), name === "rotary" ? 4.5 : 3);
  }
  ctx.fillStyle = colors.grid;
  ctx.font = "600 64px system-ui, sans-serif";
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillText("?", across(plot, 362), (plot.top + plot.bottom) / 2);
}

/** The drawn curve: its middle line is RoPE's loss at the trained length. */
function drawn(plot, values) {
  const begun = at("rotary", TRAINED);
  return values.map((value, i) => {
    const length = TRAINED * (LONGEST / TRAINED) ** (i / (values.length - 1));
    return [across(plot, length), inside(plot, down(plot, begun + HALF * value))];
  });
}

/** The name of each curve at its end, with its loss at the length that is read. */
function names(ctx, plot, { losses }, { told }, colors, say) {
  const end = told ? LONGEST : TRAINED;
  const x = across(plot, end) + 10;
  const sorted = [...NAMES].sort((one, two) => at(two, end) - at(one, end));
  const places = sorted.map((name) => down(plot, at(name, end)));
  // Names keep their order and a line's distance, as near to their curves as that allows.
  for (let i = 1; i < places.length; i += 1) places[i] = Math.max(places[i], places[i - 1] + LINE);
  const over = Math.max(0, places.at(-1) - plot.bottom + 6);
  for (let i = places.length - 1; i >= 0; i -= 1)
    places[i] = Math.min(places[i] - over, (places[i + 1] ?? Infinity) - LINE);
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  sorted.forEach((name, i) => {
    const { value, measured } = told ? losses[name] : { value: at(name, TRAINED), measured: true };
    ctx.font = `${name === "rotary" ? "600 " : ""}12px system-ui, sans-serif`;
    ctx.fillStyle = colors[LOOKS[name].color];
    ctx.fillText(say(name), x, places[i]);
    const beside = x + ctx.measureText(say(name)).width + 5;
    if (told) ctx.fillStyle = colors.accent;
    ctx.fillText(`${measured ? "" : "≈"}${two(value)}`, beside, places[i]);
  });
}

function lit(ctx, plot, read, colors, say) {
  const x = across(plot, read);
  ctx.strokeStyle = ctx.fillStyle = colors.accent;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.moveTo(x, plot.top);
  ctx.lineTo(x, plot.bottom);
  ctx.stroke();
  dot(ctx, x, plot.bottom, 9);
  ctx.font = "600 12px system-ui, sans-serif";
  ctx.textBaseline = "top";
  ctx.textAlign = read > 200 ? "right" : "left";
  ctx.fillText(say("read_at", { read }), x + (read > 200 ? -6 : 6), plot.top);
}

function pairs(ctx, { left, top, room, columns, radius }, found, told, colors, say) {
  caption(ctx, say("dials_caption"), left, top, colors);
  found.pairs.forEach((pair, i) => {
    const x = left + (0.5 + (i % columns)) * room;
    const y = top + radius + 8 + Math.floor(i / columns) * (2 * radius + 24);
    dial(ctx, [x, y], radius, pair, told, colors);
    ctx.fillStyle = colors.muted;
    ctx.textAlign = "center";
    ctx.textBaseline = "top";
    ctx.fillText(String(Math.round((2 * Math.PI) / pair.step)), x, y + radius + 6);
  });
}

/** How the last byte attends to those before it: blue where training showed how far they are, red where not. */
function strips(ctx, { left, right, top, step }, { rows }, told, colors, say) {
  caption(ctx, say("rows_caption"), left, top, colors);
  ROWS.forEach((name, i) => {
    const { weights, fresh } = rows[name];
    const foot = top + (i + 1) * step;
    const high = step - LINE - 2;
    const most = weights.reduce((one, two) => Math.max(one, two), 0);
    const wide = (right - left) / weights.length;
    ctx.strokeStyle = colors.grid;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(left, foot);
    ctx.lineTo(right, foot);
    ctx.stroke();
    for (let from = 0, to = 0; from < weights.length; from = to) {
      ctx.fillStyle = told ? (fresh[from] ? colors.b : colors.a) : colors.muted;
      ctx.beginPath();
      ctx.moveTo(left + from * wide, foot);
      for (; to < weights.length && fresh[to] === fresh[from]; to += 1) {
        const y = foot - (high * weights[to]) / most;
        ctx.lineTo(left + to * wide, y);
        ctx.lineTo(left + (to + 1) * wide, y);
      }
      ctx.lineTo(left + to * wide, foot);
      ctx.fill();
    }
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    ctx.fillStyle = colors.ink;
    ctx.fillText(told ? `${say(name)}${say(`new_${name}`)}` : say(name), left, foot - high - 1);
  });
}

function caption(ctx, words, left, top, colors) {
  ctx.font = "12px system-ui, sans-serif";
  ctx.fillStyle = colors.muted;
  ctx.textAlign = "left";
  ctx.textBaseline = "bottom";
  ctx.fillText(words, left, top - 2);
}

export const chapter = {
  id: "beyond",
  panel,
  controls: ["read"],
  formula({ told, read }) {
    const rows = [panel.formula[0]];
    if (told)
      rows.push([
        panel.formula[1][0],
        `#b{#accent{${read - 1}} θ_i > ${TRAINED} θ_i} ∧`, `#a{${TRAINED - 1} θ_i < 2 π} ⇒ new_i`,
      ]);
    return rows;
  },
  predict: { sketch: POINTS },
  draw,
  text: {
    en: {
      lead: `Six small models, alike but for their encoding, were trained on ${TRAINED} bytes of text and then read up to ${LONGEST}. Drag the length along the curves: the dials are RoPE's pairs, and the rows show where the last byte looks.`,
      question: `RoPE knows distance alone, and each model predicts the same bytes, with more and more text before them. How does RoPE's loss go on from ${TRAINED} bytes at the left to ${LONGEST} at the right? The middle line is its loss at ${TRAINED}; up is worse, the upper edge by ${HALF} nats.`,
      answer: `It holds to twice the trained length (${two(at("rotary", 128))}), then climbs to ${two(at("rotary", LONGEST))}, worse than without any position (${two(at("none", LONGEST))}): two of its four pairs now stand at angles, in red, that training never showed. They are the reason: where every distance beyond ${TRAINED - 1} counts as ${TRAINED - 1}, the same weights have ${two(CLIPPED)}.`,
      fails: "But reading farther brings what training never showed: rows that nobody trained, and angles that some pairs never reached.",
      leads: "Angles can be changed: turn the pairs more slowly, and red becomes blue.",
      none: "none",
      learned: "learned",
      new_learned: ": rows that were never trained",
      new_rotary: ": angles that were never met",
      new_t5: ": far bytes share one trained bucket",
      new_alibi: ": larger penalties, along the same slope",
      read_at: "{read} bytes",
      dials_caption: "RoPE's pairs, bytes per turn",
      rows_caption: "Attention of the last byte, all bytes alike",
      picture_label: "Loss of six encodings against the length that is read, now {read} bytes, where RoPE has {loss}. Left and right change the length.",
    },
    zh: {
      lead: `六个小模型只有位置编码不同，都在 ${TRAINED} 字节的文本上训练，再读最多 ${LONGEST} 字节。沿着曲线拖动长度：表盘是 RoPE 的维度对，下面几行是最后一个字节看向哪里。`,
      question: `RoPE 只知道距离；各个模型预测的是同一批字节，前面的文本越来越长。从左端的 ${TRAINED} 字节到右端的 ${LONGEST} 字节，RoPE 的损失会怎样变化？中线是它在 ${TRAINED} 字节处的损失，越往上越差，上边缘多 ${HALF} nat。`,
      answer: `到训练长度的两倍仍然保持（${two(at("rotary", 128))}），之后升到 ${two(at("rotary", LONGEST))}，比没有位置编码（${two(at("none", LONGEST))}）还差：四个维度对中有两个转到了训练中从未出现的角度（红色）。原因就在这里：把超过 ${TRAINED - 1} 的距离都当作 ${TRAINED - 1}，同样的权重损失为 ${two(CLIPPED)}。`,
      fails: "但是读得更远，就会遇到训练从未给出的东西：没人训练过的行，有些维度对从未到过的角度。",
      leads: "角度可以改：让维度对转得慢一些，红色就会变成蓝色。",
      none: "无位置",
      learned: "可学习",
      new_learned: "：从未训练过的行",
      new_rotary: "：从未遇到的角度",
      new_t5: "：远处的字节共用一个训练过的桶",
      new_alibi: "：更大的惩罚，仍沿同一条斜线",
      read_at: "{read} 字节",
      dials_caption: "RoPE 的维度对，转一圈的字节数",
      rows_caption: "所有字节都相同时，最后一个字节的注意力",
      picture_label: "六种编码的损失随读入长度的变化，现在读 {read} 字节，RoPE 的损失为 {loss}。左右键改变长度。",
    },
  },
};
