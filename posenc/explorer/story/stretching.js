import { dial } from "#core/dial.js";
import { lossOf, two } from "#core/length_plot.js";
import { short } from "#core/numbers.js";
import { key } from "#core/seen.js";
import data from "#data/compare.js";
import { SCALINGS } from "#formulas/scalings.js";
import { METHODS } from "#math/stretched.js";
import { panel } from "#panels/stretching.js";

const MOST_DIALS = 32;
const COLUMNS = 8;
const TIMES = 4;
const { lengths: LENGTHS, trainLength: TRAINED, methods: MEASURED } = data;
const [, TWICE] = LENGTHS;
const LONGEST = LENGTHS.at(-1);
const BEYOND = LENGTHS.slice(1);
const loss = (method, length) => two(MEASURED[method][length]);

/** Where things stand in a picture of this width, in CSS pixels. */
function layout(width) {
  const narrow = width < 520;
  const room = width / COLUMNS;
  const ruler = { left: 13, right: width - 13 };
  if (narrow) return { narrow, height: 346, room, radius: 16, step: 50, ruler: { ...ruler, y: 240 } };
  return { narrow, height: 424, room, radius: 27, step: 76, ruler: { ...ruler, y: 338 } };
}

/** The times of the trained length that the ruler reaches: more only where the slider asks for more. */
const reachOf = ({ target, trained }) => Math.max(TIMES, target / trained);

/** The end of the text, anywhere on its ruler. */
function grab(row) {
  return (x, y, width) => {
    const { ruler } = layout(width);
    if (Math.abs(y - ruler.y) > 26) return null;
    return (to) => ({ factor: Math.max(1, ((to - ruler.left) / (ruler.right - ruler.left)) * reachOf(row)) });
  };
}

/** All pairs, or so many of them, evenly spread from the fastest to the slowest. */
function chosen(pairs) {
  const count = Math.min(pairs.length, MOST_DIALS);
  return Array.from({ length: count }, (_, n) => Math.round((n * (pairs.length - 1)) / Math.max(count - 1, 1)));
}

/** What is shown: before the answer RoPE as it is, which the chapter before has told. */
const rowOf = ({ rows, chosen: at }, { told }) => rows[told ? at : 0];

function draw(stage, found, s, say) {
  const row = rowOf(found, s);
  const [{ step, own }] = row.pairs;
  const radians = (value) => short(Number(value.toPrecision(3)));
  const said = {
    fresh: row.fresh, count: row.pairs.length, target: row.target, trained: row.trained,
    step: radians(step), own: radians(own), method: say(row.name),
  };
  const { height } = layout(stage.width);
  stage.paint(
    "stretching",
    { height, grab: grab(row), steps: { x: "factor" }, label: say("picture_label", said) },
    (ctx, width, _, colors) => {
      const { room, radius, step: high, ruler, narrow } = layout(width);
      ctx.font = "12px system-ui, sans-serif";
      chosen(row.pairs).forEach((pair, n) => {
        const [x, y] = [((n % COLUMNS) + 0.5) * room, radius + 6 + Math.floor(n / COLUMNS) * high];
        dial(ctx, [x, y], radius, row.pairs[pair], colors);
        ctx.fillStyle = colors.muted;
        ctx.textAlign = "center";
        ctx.textBaseline = "top";
        ctx.fillText(String(pair), x, y + radius + 5);
      });
      text(ctx, ruler, row, colors, say);
      ctx.textAlign = "left";
      ctx.textBaseline = "top";
      ctx.font = "600 14px system-ui, sans-serif";
      ctx.fillStyle = row.fresh ? colors.unseen : colors.a;
      ctx.fillText(say("fresh_count", said), ruler.left, ruler.y + 38);
      ctx.font = "13px system-ui, sans-serif";
      ctx.fillStyle = colors.ink;
      ctx.textAlign = narrow ? "left" : "right";
      const beside = narrow ? [ruler.left, ruler.y + 60] : [ruler.right, ruler.y + 39];
      ctx.fillText(say("step_count", said), ...beside);
      key(ctx, [ruler.left, height - 8], { seen: say("seen"), unseen: say("unseen"), wedge: say("wedge") }, colors);
    },
  );
}

/** The text that is read, on a ruler, with the end of those of training. */
function text(ctx, ruler, row, colors, say) {
  const { trained, target } = row;
  const place = (tokens) => ruler.left + ((ruler.right - ruler.left) * tokens) / (trained * reachOf(row));
  const line = (from, to, color, width) => {
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.moveTo(from, ruler.y);
    ctx.lineTo(to, ruler.y);
    ctx.stroke();
  };
  line(ruler.left, ruler.right, colors.grid, 6);
  line(ruler.left, place(target), colors.muted, 6);
  line(ruler.left, place(trained), colors.ink, 6);
  ctx.fillStyle = colors.accent;
  ctx.beginPath();
  ctx.arc(place(target), ruler.y, 11, 0, 2 * Math.PI);
  ctx.fill();
  ctx.font = "12px system-ui, sans-serif";
  ctx.textBaseline = "top";
  ctx.fillStyle = colors.ink;
  ctx.textAlign = "left";
  const [before, now] = [say("trained_at", { trained }), say("target_at", { target })];
  ctx.fillText(before, ruler.left, ruler.y + 15);
  const room = ruler.left + ctx.measureText(before).width + 14;
  ctx.fillStyle = colors.accent;
  ctx.font = "600 12px system-ui, sans-serif";
  const wide = ctx.measureText(now).width;
  // Below the end of the text, within the picture, and beside the other name.
  ctx.fillText(now, Math.max(Math.min(place(target) - wide / 2, ruler.right - wide), room), ruler.y + 15);
}

/** The method, and how far it turns the first pair that meets new angles, or else the slowest. */
function formula(s, found) {
  if (found === null) return [];
  const row = rowOf(found, s);
  const { trained, target, name, settings, pairs } = row;
  const fresh = pairs.findIndex((pair) => pair.fresh);
  const i = fresh < 0 ? pairs.length - 1 : fresh;
  const turned = (times, sign, angle) => `${times} ${sign}_{${i}} = ${short(Number(angle.toPrecision(3)))}`;
  const farthest = name === "rerope" ? trained : target;
  return [
    ["θ_i = base^{-2i/d}", SCALINGS[name](settings)[0]],
    ...SCALINGS[name](settings).slice(1).map((line) => [line]),
    [
      `#a{${turned(trained - 1, "θ", pairs[i].seen)}}`,
      `#${fresh < 0 ? "a" : "unseen"}{${turned(farthest - 1, "h", pairs[i].reached)}}`,
    ],
  ];
}

/** What the methods make of the model of the chapter before, and at what price. */
function facts(say) {
  const measured = (method) => BEYOND.map((length) => (MEASURED[method] ? loss(method, length) : "–"));
  return {
    title: say("facts_title", { length: TRAINED }),
    head: [say("method"), ...BEYOND.map(String), say("price")],
    rows: METHODS.map((method) => [say(method), ...measured(method), say(`price_${method}`)]),
  };
}

export const chapter = {
  id: "stretching",
  panel,
  holds: { d: 64, base: 10_000, trained: 4096 },
  // What a pasted config.json says needs the workshop's room.
  options: { method: METHODS },
  controls: ["factor", "method"],
  formula,
  facts,
  predict: { options: ["better", "same", "worse"], right: () => "worse" },
  draw,
  text: {
    en: {
      lead: "Each dial is a pair of a RoPE head, the fastest first; its hand stands where the whole length of the text turns it, and the slow ones meet new angles. The grey wedge is the step from one token to the next. Drag the end of the text.",
      question: `Linear interpolation turns every pair more slowly, by as much as the text is longer: no angle is new then. RoPE's model of the chapter before read ${TWICE} bytes, twice its training, with a loss of ${loss("none", TWICE)}. What does linear make of that, without more training?`,
      better: "A lower loss",
      same: "The same",
      worse: "A higher loss",
      answer: `A higher one, ${loss("linear", TWICE)}. No angle is new, but the wedge is narrower than in training, its outline: neighbours come closer together by the factor, to steps that training gave to no neighbours. The other methods spare the fast pairs, ReRoPE spares all, each at its price. Choose one, and watch the wedges and the red.`,
      fails: `But angles that training knows are not yet a model that reads well: linear leaves none new, and at ${LONGEST} bytes has ${loss("linear", LONGEST)}, after ${two(lossOf("rotary", TRAINED))} at ${TRAINED}.`,
      leads: "So measure: posenc extend tries the methods on your model, with a short training if you like, and make compare trains small ones; the lessons tell the whole story, and below is the workshop with every picture.",
      fresh_count: "{fresh} of {count} pairs meet new angles",
      step_count: "one token turns pair 0 by {step} rad (trained: {own})",
      trained_at: "trained: {trained}",
      target_at: "read: {target} tokens",
      seen: "seen",
      unseen: "never seen",
      wedge: "one token's step",
      symbols: "θ_i: radians by which a token turns pair i in training; h_i: with the method. The last line is one pair at the farthest distance, in training and now.",
      facts_title: "Losses of RoPE's model of the chapter before, trained on {length} bytes, by the length that is read, without more training: heads of 4 pairs, factors 2, 4 and 8 (–: not measured)",
      price: "what it does, and its price",
      price_none: "Nothing: the slow pairs meet new angles.",
      price_linear: "Every pair slower by the factor. Neighbours come closer by the factor, and already at twice the length that costs more than doing nothing.",
      price_ntk: "A larger base: the fastest pair keeps its speed, the slowest has the factor. Some pairs between still meet new angles. In that model one does, and NTK is yet the best of those that slow pairs down: new angles are not all that counts, near distances are too. With hardly a pair between fast and slow, little follows for larger heads.",
      price_dynamic_ntk: "NTK with a factor that follows the length; a factor beside it, as here, slows the slowest pair far more than itself. Angles of early tokens change as the text grows: keys are cached unrotated, or turned again.",
      price_yarn: "Fast pairs keep their speed, slow ones have the factor, those between a share of both; and a gain on cosines and sines, so its square on the scores. The losses here have it; a model that was tuned with it must be read with it.",
      price_llama3: "As YaRN, with other limits between fast and slow, and without the gain.",
      price_longrope: "A divisor for each pair, which has to be searched for each model, so as to leave few angles new; the dials show an example.",
      price_rerope: "No pair is slower: far distances count as one that training showed. Scores are computed twice, near and far, what is far is not told apart, and keys are cached unrotated.",
      picture_label: "{count} pairs as dials, {method}; a text of {target} tokens after training on {trained}: {fresh} pairs meet new angles. Left and right change the length.",
    },
    zh: {
      lead: "每个表盘是 RoPE 头里的一个维度对，最快的在前；指针是整段文本使它转到的位置，慢的那些会遇到新角度。灰色扇形是从一个词元到下一个词元的一步。拖动文本的末端。",
      question: `线性插值让所有维度对都转得更慢，文本长多少倍就慢多少倍，于是没有新角度。上一章的 RoPE 模型读 ${TWICE} 字节（训练长度的两倍）时损失为 ${loss("none", TWICE)}。不再训练，换成线性插值会怎样？`,
      better: "损失更低",
      same: "一样",
      worse: "损失更高",
      answer: `更高：${loss("linear", TWICE)}。没有新角度了，但扇形比训练时（轮廓线）窄：相邻词元按同样的倍数靠近，而训练中相邻的词元从来没有这样小的一步。其他方法放过快的维度对，ReRoPE 一对都不动，各有代价。换一种方法，看扇形和红色怎样变化。`,
      fails: `但是角度都见过，不等于模型读得好：线性插值没有留下新角度，读 ${LONGEST} 字节时损失却是 ${loss("linear", LONGEST)}，而读 ${TRAINED} 字节时是 ${two(lossOf("rotary", TRAINED))}。`,
      leads: "所以要测量：posenc extend 在你的模型上试各种方法，需要时再训练一小段，make compare 训练小模型来比较；课文讲完整的来龙去脉，下面的工作台里有每一张图。",
      fresh_count: "{count} 个维度对中有 {fresh} 个遇到新角度",
      step_count: "一个词元使第 0 对转过 {step} 弧度，训练时为 {own}",
      trained_at: "训练：{trained}",
      target_at: "读入：{target} 个词元",
      seen: "见过",
      unseen: "从未见过",
      wedge: "一个词元的一步",
      symbols: "θ_i：训练时一个词元使第 i 对转过的弧度；h_i：用这种方法时的弧度。最后一行是其中一对在最远距离处的角度：训练时，和现在。",
      facts_title: "上一章的 RoPE 模型（训练长度 {length} 字节）读更长文本的损失，没有再训练；头有 4 对，倍数为 2、4、8（–：没有测量）",
      price: "做什么，代价是什么",
      price_none: "什么都不做：慢的维度对遇到新角度。",
      price_linear: "所有维度对都按倍数放慢。相邻词元按同样的倍数靠近，在两倍长度处就已经不如什么都不做。",
      price_ntk: "换成更大的基数：最快的保持原速，最慢的按倍数放慢。中间有些仍会遇到新角度。在那个模型里有一对是这样，它却是放慢维度对的几种中最好的：要紧的不只是新角度，还有近处的距离。那里几乎没有不快不慢的对，大一些的头未必如此。",
      price_dynamic_ntk: "倍数随长度变化的 NTK；像这里另给一个倍数，最慢的对放慢得比这个倍数多得多。文本变长时，前面词元的角度也跟着变：键要不旋转就缓存，或者重新旋转。",
      price_yarn: "快的保持原速，慢的按倍数放慢，中间的各取一部分；余弦和正弦另乘一个增益，得分就乘它的平方。这里的损失带着它；带着它微调的模型，读入时也要带着。",
      price_llama3: "与 YaRN 相同，只是快慢的界限不同，也没有增益。",
      price_longrope: "每对各有一个除数，要为每个模型搜索，使新角度尽量少；表盘画的是一个例子。",
      price_rerope: "没有一对放慢：远处的距离都当作训练中见过的一个距离。得分要算近、远两遍，远处的词元彼此分不开，键要不旋转就缓存。",
      picture_label: "{count} 个维度对画成表盘，方法：{method}；训练长度 {trained}，现在读 {target} 个词元：{fresh} 个维度对遇到新角度。左右键改变长度。",
    },
  },
};
