import { arrow } from "#core/arrow.js";
import { label } from "#core/label.js";
import { panel } from "#panels/rotation.js";

const TOKENS = 32;
const HANDLE = 13;
// The query above the text and the key below it, so that neighbours do not hide each other.
const ABOVE = { q: -15, k: 15 };

/** Where things stand in a picture of this width, in CSS pixels. */
function layout(width) {
  const narrow = width < 520;
  const height = narrow ? 330 : 400;
  const ruler = { left: 22, right: width - 22, y: height - 52 };
  const radius = Math.min((ruler.y - 60) / 2, width / 4);
  return { narrow, height, ruler, radius, centre: [narrow ? radius + 22 : width * 0.3, 24 + radius] };
}
const placeOf = ({ left, right }, position) => left + ((right - left) * position) / (TOKENS - 1);

/** What the pointer takes: q, k, or the stretch of text between them, which moves both. */
function grab(s) {
  return (x, y, width) => {
    const { ruler } = layout(width);
    const step = (ruler.right - ruler.left) / (TOKENS - 1);
    const position = (at) => Math.min(Math.max(Math.round((at - ruler.left) / step), 0), TOKENS - 1);
    const [q, k] = [s.m, s.n].map((at) => placeOf(ruler, at));
    if (Math.abs(y - ruler.y) > 34) return null;
    const near = { q: Math.abs(x - q) <= HANDLE + 6, k: Math.abs(x - k) <= HANDLE + 6 };
    const above = y === ruler.y ? Math.abs(x - q) <= Math.abs(x - k) : y < ruler.y;
    if (near.q && (above || !near.k)) return (to) => ({ m: position(to) });
    if (near.k) return (to) => ({ n: position(to) });
    if (x < Math.min(q, k) || x > Math.max(q, k)) return null;
    const [low, high] = [-Math.min(s.m, s.n), TOKENS - 1 - Math.max(s.m, s.n)];
    return (to) => {
      const by = Math.min(Math.max(Math.round((to - x) / step), low), high);
      return { m: s.m + by, n: s.n + by };
    };
  };
}

function draw(stage, data, s, say) {
  const { height } = layout(stage.width);
  const { m, n, pair, told } = s;
  stage.paint(
    "rotation",
    {
      height, grab: grab(s), steps: { x: "m", y: "n" },
      label: say("picture_label", { m, n, score: told ? data.score : "?" }),
    },
    (ctx, width, _, colors) => {
      const { ruler, radius, centre, narrow } = layout(width);
      circle(ctx, data, { radius, centre }, colors, say);
      if (told) between(ctx, data, { radius, centre }, colors);
      number(ctx, width, { radius, centre, narrow }, data, s, colors, say);
      text(ctx, ruler, s, colors, say);
    },
  );
}

function circle(ctx, { arrows }, { radius, centre }, colors, say) {
  ctx.strokeStyle = colors.grid;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.arc(...centre, radius, 0, 2 * Math.PI);
  ctx.stroke();
  ctx.font = "italic 16px serif";
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  for (const [name, color] of [["q", colors.a], ["k", colors.b]]) {
    const { from, to } = arrows[name];
    const unit = radius / Math.hypot(...to);
    const place = ([x, y], by = 1) => [centre[0] + x * unit * by, centre[1] - y * unit * by];
    arrow(ctx, centre, place(from), color, true);
    arrow(ctx, centre, place(to), color, false);
    ctx.fillStyle = color;
    ctx.fillText(say(name), ...place(to, 1.12));
  }
}

/** The angle from the key's arrow to the query's. */
function between(ctx, { arrows }, { radius, centre }, colors) {
  const [from, to] = [arrows.k.to, arrows.q.to].map(([x, y]) => Math.atan2(-y, x));
  const way = Math.atan2(Math.sin(to - from), Math.cos(to - from));
  ctx.strokeStyle = colors.accent;
  ctx.lineWidth = 3;
  ctx.beginPath();
  ctx.arc(...centre, radius * 0.4, from, from + way, way < 0);
  ctx.stroke();
}

/** The score of the whole head, and what the pair that is drawn brings to it. */
function number(ctx, width, { radius, centre, narrow }, { score, pairProduct }, { told, pair, d }, colors, say) {
  const left = narrow ? centre[0] + radius + 20 : width * 0.58;
  const written = (value) => (told ? value.toFixed(4).replace("-", "−") : "?");
  const style = { align: "left", size: narrow ? 12 : 13 };
  const line = (text, down, color = colors.muted, more = {}) =>
    label(ctx, text, [left, centre[1] + down], color, { ...style, ...more });
  line(say("score_of", { count: d / 2 }), -58);
  line(written(score), -30, told ? colors.accent : colors.muted, { size: narrow ? 26 : 34, weight: "600" });
  line(say("pair_shown", { pair }), 14);
  line(written(pairProduct / Math.sqrt(d)), 34, told ? colors.ink : colors.muted, { size: 16, weight: "600" });
  line(say("dashed"), 66);
}

function text(ctx, ruler, { m, n }, colors, say) {
  ctx.strokeStyle = colors.muted;
  ctx.lineWidth = 1;
  ctx.textAlign = "center";
  ctx.textBaseline = "top";
  ctx.font = "12px system-ui, sans-serif";
  ctx.fillStyle = colors.muted;
  for (let at = 0; at < TOKENS; at += 1) {
    const x = placeOf(ruler, at);
    ctx.beginPath();
    ctx.moveTo(x, ruler.y - 5);
    ctx.lineTo(x, ruler.y + 5);
    ctx.stroke();
    if (at % 8 === 0 || at === TOKENS - 1) ctx.fillText(String(at), x, ruler.y + 32);
  }
  ctx.lineWidth = 8;
  ctx.strokeStyle = colors.grid;
  ctx.beginPath();
  ctx.moveTo(placeOf(ruler, m), ruler.y);
  ctx.lineTo(placeOf(ruler, n), ruler.y);
  ctx.stroke();
  for (const [name, at, color] of [["k", n, colors.b], ["q", m, colors.a]]) {
    const [x, y] = [placeOf(ruler, at), ruler.y + ABOVE[name]];
    ctx.fillStyle = color;
    ctx.beginPath();
    ctx.arc(x, y, HANDLE, 0, 2 * Math.PI);
    ctx.fill();
    ctx.fillStyle = colors.paper;
    ctx.font = "italic 600 15px serif";
    ctx.textBaseline = "middle";
    ctx.fillText(say(name), x, y);
  }
}

export const chapter = {
  id: "rotation",
  panel,
  holds: { length: TOKENS },
  controls: ["m", "n"],
  formula: ({ told }) => [[`{(R_#a{m} q)}^⊤ (R_#b{n} k)${told ? " = q^⊤ R_{#b{n} - #a{m}} k" : ""}`]],
  predict: { options: ["grows", "falls", "stays"], right: () => "stays", at: 12 },
  draw,
  text: {
    en: {
      title: "Turn, do not add",
      lead: "Turn the query by its position and the key by its own, pair by pair, like hands of a clock. Drag q, k, or the text between them.",
      question: "Move q and k along the text by the same number of tokens. What happens to their score?",
      grows: "It grows",
      falls: "It falls",
      stays: "It stays",
      answer: "It stays. An inner product is made of lengths and the angle between, and turning both arrows by the same angle changes neither: only n − m is left. Its sign counts: a key three tokens behind is not one three tokens ahead.",
      fails: "But turning does not make near count for more than far: what a distance does to a score depends on q and k.",
      leads: "It can be said outright: a number for each distance, added to the score.",
      score_of: "score of all {count} pairs",
      pair_shown: "pair {pair}, drawn, brings",
      dashed: "dashed: unturned",
      picture_label: "The query at {m} and the key at {n} on a ruler of text, their arrows turned, score {score}. Left and right move the query, up and down the key.",
    },
    zh: {
      title: "转动，而不是相加",
      lead: "查询按自己的位置转，键按自己的位置转，一对一对地转，像钟的指针。可以拖动 q、k，或拖动二者之间的那段文字。",
      question: "q 与 k 沿着文本移动同样多的词元，它们的得分会怎样？",
      grows: "变大",
      falls: "变小",
      stays: "不变",
      answer: "不变。内积由长度和夹角决定，两个箭头转过同样的角度，这两样都不变，剩下的只有 n − m。它的正负有区别：往前三个词元的键与往后三个词元的键并不一样。",
      fails: "但是转动并不保证近处比远处更重要：一个距离怎样影响得分，要看 q 和 k。",
      leads: "不妨直说：每个距离对应一个数，直接加到得分上。",
      score_of: "全部 {count} 对的得分",
      pair_shown: "其中画出的第 {pair} 对：",
      dashed: "虚线：转动之前",
      picture_label: "文本标尺上，查询在 {m}，键在 {n}，箭头已转动，得分 {score}。左右键移动查询，上下键移动键。",
    },
  },
};
