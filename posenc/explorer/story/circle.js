import { label } from "#core/label.js";
import { ticks } from "#core/numbers.js";
import { turning } from "#core/turning.js";
import { panel } from "#panels/circle.js";

const TURN = 2 * Math.PI;
// Nearer than this, two heights are the same but for rounding.
const SAME = 1e-9;

/** Where things stand in a picture of this width, in CSS pixels. */
function layout(width) {
  const narrow = width < 520;
  const radius = narrow ? 64 : 122;
  const centre = narrow ? [91, 96] : [160, 160];
  const wave = { left: narrow ? 199 : 352, right: width - 10 };
  const foot = centre[1] + radius + (narrow ? 44 : 50);
  return { narrow, radius, centre, wave, foot, height: foot + (narrow ? 76 : 82) };
}
const across = ({ left, right }, count, n) => left + ((right - left) * n) / (count - 1);

/** What the pointer takes: the point on the circle, or a place along the wave. */
function grab({ count, position, period }) {
  return (x, y, width) => {
    const { centre, radius, wave } = layout(width);
    if (Math.abs(y - centre[1]) > radius + 24) return null;
    if (Math.hypot(x - centre[0], y - centre[1]) < radius + 24) {
      const turned = turning(centre, [x, y], position, -period);
      return (...to) => ({ position: Math.round(turned(...to)) });
    }
    if (x < wave.left - 10) return null;
    return (to) => ({ position: Math.round(((to - wave.left) / (wave.right - wave.left)) * (count - 1)) });
  };
}

function draw(stage, data, s, say) {
  const { position: n, points } = data;
  const { told } = s;
  const found = data.lookalikes.find(({ view }) => view === "sine");
  const twin = told && found.apart < SAME ? found.at : null;
  const cosine = told ? points[n].cos : "?";
  stage.paint(
    "circle",
    {
      height: layout(stage.width).height, grab: grab(data), steps: { x: "position", y: "position" },
      label: say("picture_label", { n, sine: points[n].sin, cosine }),
    },
    (ctx, width, _, colors) => {
      const at = layout(width);
      const place = ({ cos, sin }) => [at.centre[0] + cos * at.radius, at.centre[1] - sin * at.radius];
      axes(ctx, data, at, colors);
      circle(ctx, data, told, place, at, colors);
      waves(ctx, data, told, at, colors);
      if (twin !== null) level(ctx, data, twin, place, at, colors);
      const line = (i) => [2, at.foot + 12 + 24 * i];
      const style = { size: 14, weight: "600", align: "left" };
      label(ctx, say("sine", { value: points[n].sin.toFixed(2) }), line(0), colors.a, style);
      if (!told) return;
      label(ctx, say("cosine", { value: cosine.toFixed(2) }), line(1), colors.b, style);
      const note = twin === null ? say("alone", { n }) : say("twin", { n, twin });
      label(ctx, note, line(2), colors.c, style);
    },
  );
}

function axes(ctx, { count, position }, { centre: [cx, cy], radius, wave }, colors) {
  ctx.strokeStyle = colors.grid;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.arc(cx, cy, radius, 0, TURN);
  for (const [from, to] of [[cx - radius, cx + radius], [wave.left, wave.right]]) {
    ctx.moveTo(from, cy);
    ctx.lineTo(to, cy);
  }
  ctx.stroke();
  for (const n of ticks(0, count - 1, 4, true))
    label(ctx, String(n), [across(wave, count, n), cy + radius + 22], colors.muted, { size: 12 });
  ctx.strokeStyle = colors.accent;
  ctx.beginPath();
  ctx.moveTo(across(wave, count, position), cy - radius);
  ctx.lineTo(across(wave, count, position), cy + radius);
  ctx.stroke();
}

/** The point of the position with its height and, once told, how far it is to the side. */
function circle(ctx, { points, position, period }, told, place, { centre, radius }, colors) {
  const [x, y] = place(points[position]);
  const line = (from, to, color, width) => {
    ctx.strokeStyle = color;
    ctx.lineWidth = width;
    ctx.beginPath();
    ctx.moveTo(...from);
    ctx.lineTo(...to);
    ctx.stroke();
  };
  line(centre, [x, y], colors.muted, 1.5);
  line([x, centre[1]], [x, y], colors.a, 5);
  if (told) line(centre, [x, centre[1]], colors.b, 5);
  const turn = Math.round(period);
  points.slice(0, turn).forEach((point, n) => {
    const lit = n === position % turn;
    if (!told && !lit) return;
    const [px, py] = place(point);
    if (told) dot(ctx, [px, py], 3.5, colors.muted);
    // A ring around the point leaves its number free.
    const out = 1 + 18 / radius;
    const style = { size: lit ? 14 : 12, weight: lit ? "600" : "400" };
    const outside = [centre[0] + (px - centre[0]) * out, centre[1] + (py - centre[1]) * out];
    label(ctx, String(lit ? position : n), outside, lit ? colors.accent : colors.muted, style);
  });
  dot(ctx, [x, y], 8, colors.accent);
}

/** The height at each position, and the other wave; before, only that of the position. */
function waves(ctx, { points, count, position }, told, { centre, radius, wave }, colors) {
  const shown = told ? [["cos", colors.b], ["sin", colors.a]] : [["sin", colors.a]];
  for (const [name, color] of shown) {
    const at = points.map((point, n) => [across(wave, count, n), centre[1] - point[name] * radius]);
    dot(ctx, at[position], 7, color);
    if (!told) continue;
    ctx.strokeStyle = color;
    ctx.lineWidth = 1;
    ctx.beginPath();
    for (const each of at) ctx.lineTo(...each);
    ctx.stroke();
    for (const each of at) dot(ctx, each, 3.5, color);
  }
}

/** A horizontal line through the position and the other one of its height. */
function level(ctx, { points, position, count }, twin, place, { wave }, colors) {
  const y = place(points[position])[1];
  ctx.strokeStyle = colors.c;
  ctx.lineWidth = 1.5;
  ctx.setLineDash([5, 4]);
  ctx.beginPath();
  ctx.moveTo(Math.min(place(points[twin])[0], place(points[position])[0]), y);
  ctx.lineTo(across(wave, count, Math.max(twin, position)), y);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.lineWidth = 2.5;
  for (const at of [place(points[twin]), [across(wave, count, twin), y]]) {
    ctx.beginPath();
    ctx.arc(...at, 9, 0, TURN);
    ctx.stroke();
  }
}

function dot(ctx, at, size, color) {
  ctx.fillStyle = color;
  ctx.beginPath();
  ctx.arc(...at, size, 0, TURN);
  ctx.fill();
}

export const chapter = {
  id: "circle",
  panel,
  holds: { speeds: "digits", pair: 3, length: 32 },
  controls: ["position"],
  formula: ({ told, pair }) => {
    const angle = `(2 π #accent{n} / ${2 ** (pair + 1)})`;
    return [[told ? `p_n = (#b{cos} ${angle}, #a{sin} ${angle})` : `p_n = #a{sin} ${angle}`]];
  },
  predict: { options: ["sixteen", "nine", "eight"], right: () => "nine" },
  draw,
  text: {
    en: {
      title: "A point on a circle",
      lead: "Take one hand, which turns once in 16 words, from the right and anticlockwise, as in mathematics. Write down only the height of its tip, the sine. Drag the tip around.",
      question: "The 16 positions of one turn: how many different heights do they have?",
      sixteen: "16, one each",
      nine: "9",
      eight: "8",
      answer: "9: the hand passes every height once going up and once going down, and only the top and the bottom stand alone. How far the tip is to the side, the cosine, tells the two apart.",
      fails: "But after a turn the circle repeats: position 16 stands where 0 stood.",
      leads: "So take several circles of different speeds, and write their waves side by side.",
      sine: "height, the sine: {value}",
      cosine: "to the side, the cosine: {value}",
      twin: "positions {n} and {twin} have the same height",
      alone: "in its turn, position {n} is alone at its height",
      picture_label: "Position {n} as a point on a circle: height {sine}, to the side {cosine}. Arrow keys move along the text.",
    },
    zh: {
      title: "圆上的一个点",
      lead: "取一根每 16 个词转一圈的指针，像数学里那样，从右边起逆时针转。只写下针尖的高度，也就是正弦。拖动针尖，让它转一转。",
      question: "一圈有 16 个位置，它们一共有几个不同的高度？",
      sixteen: "16 个，各不相同",
      nine: "9 个",
      eight: "8 个",
      answer: "9 个：除了最高点和最低点，每个高度上行时经过一次，下行时又经过一次。针尖偏左还是偏右，也就是余弦，能把这两个位置分开。",
      fails: "但是转满一圈，圆就重复了：位置 16 又落在位置 0 上。",
      leads: "那就取几个快慢不同的圆，把它们的波并排写下来。",
      sine: "高度（正弦）：{value}",
      cosine: "左右（余弦）：{value}",
      twin: "位置 {n} 和 {twin} 一样高",
      alone: "这一圈里，这个高度上只有位置 {n}",
      picture_label: "位置 {n} 是圆上的一个点：高度 {sine}，左右 {cosine}。方向键沿文本移动。",
    },
  },
};
