import { foot, SMALL } from "#core/axis.js";
import { guessed } from "#core/guess.js";
import { dot, line } from "#core/marks.js";
import { ticks } from "#core/numbers.js";
import { panel } from "#panels/distance.js";

const [LENGTH, WIDTH, BASE] = [128, 64, 10_000];
const GUESSED = 32;

/** Where the curves stand in a picture of this width, in CSS pixels. */
function layout(width) {
  const height = width < 520 ? 330 : 400;
  return { height, plot: { left: 34, top: 34, width: width - 46, height: height - 34 - 42 } };
}

function grab(x, y, width) {
  const { plot } = layout(width);
  if (x < plot.left - 8 || x > plot.left + plot.width + 8 || y < plot.top || y > plot.top + plot.height) return null;
  const share = (to) => Math.min(Math.max((to - plot.left) / plot.width, 0), 1);
  return (to) => ({ lit: Math.round(share(to) * (LENGTH - 1)) });
}

function draw(stage, { pairs }, s, say) {
  const { height } = layout(stage.width);
  const mean = pairs.mean[s.lit];
  const words = { distance: s.lit, count: pairs.count };
  const label = say("picture_label", { ...words, mean: s.told ? mean : "?" });
  stage.paint(
    "distance",
    { height, grab, steps: { x: "lit", y: "summed" }, label },
    (ctx, width, _, colors) => {
      const { plot } = layout(width);
      const x = (distance) => plot.left + (distance / (LENGTH - 1)) * plot.width;
      const y = (value) => plot.top + (plot.height * (1 - value)) / 2;
      grid(ctx, plot, x, y, colors, say);
      single(ctx, pairs, s, x, y, colors);
      if (s.told) {
        line(ctx, pairs.mean.map((value, distance) => [x(distance), y(value)]), colors.a, 3);
        if (Array.isArray(s.guess)) guessed(ctx, drawn(plot, s.guess, y), colors, say);
        dot(ctx, x(s.lit), y(mean), colors.accent, 6);
      }
      head(ctx, plot, words, s.told ? mean : null, colors, say);
    },
  );
}

function grid(ctx, plot, x, y, colors, say) {
  ctx.font = SMALL;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  for (const value of [-1, -0.5, 0, 0.5, 1]) {
    line(ctx, [[plot.left, y(value)], [plot.left + plot.width, y(value)]], colors.grid, 1);
    ctx.fillStyle = colors.muted;
    ctx.fillText(String(value).replace("-", "−"), plot.left - 6, y(value));
  }
  const marks = ticks(0, LENGTH - 1, plot.width / 60, true).map((distance) => [distance, x(distance)]);
  foot(ctx, { ...plot, y: plot.top + plot.height }, marks, say("distance_axis"), colors);
}

/** The cosine of each pair that is summed, and where it stands at the distance that is lit. */
function single(ctx, { values, x: distances, count }, s, x, y, colors) {
  // Many together would hide what is drawn over them.
  ctx.globalAlpha = Math.max(0.16, count ** -0.6);
  for (let pair = 0; pair < count; pair += 1) {
    const at = (distance) => values[pair * distances.length + distance];
    line(ctx, distances.map((distance) => [x(distance), y(at(distance))]), colors.muted, 1);
  }
  ctx.globalAlpha = 1;
  line(ctx, [[x(s.lit), y(1)], [x(s.lit), y(-1)]], colors.accent, 2);
  for (let pair = 0; pair < count; pair += 1)
    dot(ctx, x(s.lit), y(values[pair * distances.length + s.lit]), colors.accent, 2.5);
}

/** What the reader drew, over the whole width as on the pad. */
const drawn = ({ left, width }, values, y) =>
  values.map((value, point) => [left + ((point + 0.5) / values.length) * width, y(value)]);

function head(ctx, plot, words, mean, colors, say) {
  ctx.textBaseline = "alphabetic";
  ctx.textAlign = "left";
  ctx.font = SMALL;
  ctx.fillStyle = colors.muted;
  ctx.fillText(say(words.count === 1 ? "one_at" : "mean_at", words), plot.left, 20);
  ctx.textAlign = "right";
  ctx.font = "600 20px system-ui, sans-serif";
  ctx.fillStyle = mean === null ? colors.muted : colors.accent;
  ctx.fillText(mean === null ? "?" : mean.toFixed(3).replace("-", "−"), plot.left + plot.width, 22);
}

export const chapter = {
  id: "distance",
  panel,
  edges: { top: "1", middle: "0", bottom: "−1", left: "0", right: String(LENGTH - 1) },
  holds: {
    a: "sinusoidal", b: "sinusoidal", d: WIDTH, base: BASE, length: LENGTH,
    vectors: "ones", draws: 1, drop: false, pairs: true,
  },
  controls: ["lit", "summed"],
  formula: ({ summed, told }) => [
    [`{p_m · p_n}/{p_m · p_m} = {1}/{${summed}} ∑_{i=0}^${summed - 1} cos(θ_i #accent{(n - m)})`],
    told && summed === WIDTH / 2 ? [`{p_m · p_n}/{p_m · p_m} ≈ 1 - {ln #accent{|n - m|} + 0.577}/{ln ${BASE}}`] : [],
  ],
  predict: { sketch: GUESSED, at: 7 },
  draw,
  text: {
    en: {
      title: "Distance in a product",
      lead: "In the inner product of the columns m and n every pair of rows brings one cosine of n − m: where the two stand does not matter. Drag across the picture to change the distance, and add the pairs one by one.",
      question: "All 32 cosines begin at 1. How does their mean go on? Draw it from distance 0 on the left to 127 on the right, the upper edge for 1, the middle line for 0.",
      answer: "It falls on the whole, fast at first and then ever more slowly, and around 127 two fifths of it are left, a third at 127 itself. Apart from the swings that is a logarithm: pairs that have turned by then cancel out, slow ones still stand near 1, and as the speeds are spaced by equal factors, a tenfold distance takes equally many out each time (0.577, Euler’s constant, is what the exact integral leaves over). But it swings all the way: time and again a farther token has the larger product. And a cosine is the same for n before m and behind it: the curve knows no direction.",
      fails: "But these columns are added to words: a product of two such sums has four parts, and only one of them, position with position, is this curve, until the matrices of query and key change even that one.",
      leads: "So add nothing to the words: turn the query and the key by their positions.",
      lit: "Distance n − m",
      summed: "Pairs, from the fastest on",
      distance_axis: "distance n − m (tokens)",
      mean_at: "mean of {count} cosines at distance {distance}",
      one_at: "the one cosine at distance {distance}",
      picture_label: "The cosines of {count} pairs against distance, and at distance {distance} their mean {mean}. Left and right change the distance, up and down how many pairs there are.",
    },
    zh: {
      title: "内积里的距离",
      lead: "第 m 列与第 n 列做内积，每一对行贡献一个 n − m 的余弦：两列在哪里并不重要。在图上拖动来改变距离，再把各对一个一个加进来。",
      question: "32 个余弦都从 1 出发，它们的均值接下来怎样变化？请画出来：左端距离为 0，右端为 127，上沿是 1，中线是 0。",
      answer: "总的趋势是下降，先快后慢，越来越慢，到 127 附近还剩五分之二，127 这一点是三分之一。除去起伏，这是一条对数曲线：已经转起来的对互相抵消，慢的对还停在 1 附近；各对的转速按固定倍数排列，所以距离每增大到十倍，退出的对就同样多（0.577 是欧拉常数，精确积分剩下的那一点）。但它一路振荡：更远的词元内积反而更大，这种事一再发生。而且 n 在 m 之前还是之后，余弦都一样：这条曲线不分方向。",
      fails: "但是这些列要加到词上：两个和相乘得到四项，只有位置与位置那一项才是这条曲线，而查询矩阵和键矩阵连这一项也会改变。",
      leads: "那就什么也不往词上加：让查询和键按各自的位置转动。",
      lit: "距离 n − m",
      summed: "几对（从最快的算起）",
      distance_axis: "距离 n − m（词元）",
      mean_at: "距离 {distance} 处 {count} 个余弦的均值",
      one_at: "距离 {distance} 处这一个余弦",
      picture_label: "{count} 对的余弦随距离的变化，距离 {distance} 处它们的均值是 {mean}。左右键改变距离，上下键改变对数。",
    },
  },
};
