import { helix } from "#core/helix.js";
import { digitFrequencies, inverseFrequencies } from "#math/frequencies.js";

// More points than this hide each other.
const MOST = 512;
const TURN = 2 * Math.PI;
// How a position is seen: both waves of a pair, one of them, or two that do not belong together.
const VIEWS = {
  both: (p) => [p.cos, p.sin],
  sine: (p) => [p.sin],
  cosine: (p) => [p.cos],
  unequal: (p) => [p.other, p.sin],
};
// The same in the formula.
const WAVES = {
  both: "sin(p θ_i), cos(p θ_i)",
  sine: "sin(p θ_i)",
  cosine: "cos(p θ_i)",
  unequal: "sin(p θ_i), cos(p θ_j)",
};

function compute(s) {
  const inverse = s.speeds === "digits" ? digitFrequencies(s.d / 2) : inverseFrequencies(s.d, s.base);
  const frequency = inverse[s.pair];
  // The partner that a wrong pairing takes: the next slower cosine, or the one before the last.
  const strange = inverse[s.pair + 1] ?? inverse[s.pair - 1] ?? frequency / 2;
  const count = Math.min(s.length, MOST);
  const points = Array.from({ length: count }, (_, at) => ({
    sin: Math.sin(at * frequency),
    cos: Math.cos(at * frequency),
    other: Math.cos(at * strange),
  }));
  const position = Math.min(s.position, count - 1);
  const period = TURN / frequency;
  const lookalikes = Object.keys(VIEWS).map((view) => ({
    view,
    ...nearest(points, position, view, period),
  }));
  return { frequency, strange, period, count, position, points, lookalikes };
}

/** The position within one turn of `position` that looks most like it, and how far apart they look. */
function nearest(points, position, view, period) {
  const seen = VIEWS[view];
  const here = seen(points[position]);
  const low = Math.max(0, Math.ceil(position - period / 2));
  const high = Math.min(points.length - 1, Math.floor(position + period / 2));
  let found = { at: null, apart: null };
  for (let at = low; at <= high; at += 1) {
    if (at === position) continue;
    const there = seen(points[at]);
    const apart = Math.hypot(...there.map((value, i) => value - here[i]));
    if (found.at === null || apart < found.apart) found = { at, apart };
  }
  return found;
}

/** Where a point of the circle is drawn in a view: alone, a wave has a line and no circle. */
function place(point, view) {
  if (view === "sine") return [0, point.sin];
  if (view === "cosine") return [point.cos, 0];
  return view === "unequal" ? [point.other, point.sin] : [point.cos, point.sin];
}

function circle(data, s, say) {
  return (context, width, height, colors) => {
    const radius = Math.min(width, height) / 2 - 26;
    const [cx, cy] = [width / 2, height / 2];
    const dot = (point, size, color) => {
      const [x, y] = place(point, s.view);
      context.fillStyle = color;
      context.beginPath();
      context.arc(cx + x * radius, cy - y * radius, size, 0, TURN);
      context.fill();
    };
    context.strokeStyle = colors.grid;
    context.lineWidth = 1;
    context.beginPath();
    context.arc(cx, cy, radius, 0, TURN);
    context.moveTo(cx - radius - 14, cy);
    context.lineTo(cx + radius + 14, cy);
    context.moveTo(cx, cy - radius - 14);
    context.lineTo(cx, cy + radius + 14);
    context.stroke();
    context.globalAlpha = 0.55;
    for (const point of data.points) dot(point, 2.6, colors.a);
    context.globalAlpha = 1;
    const here = data.points[data.position];
    const [x, y] = place(here, s.view);
    context.strokeStyle = colors.b;
    context.lineWidth = 2.5;
    context.beginPath();
    context.moveTo(cx, cy);
    context.lineTo(cx + x * radius, cy - y * radius);
    context.stroke();
    const twin = data.lookalikes.find(({ view }) => view === s.view);
    if (twin.at !== null)
      ring(context, cx, cy, radius, place(data.points[twin.at], s.view), colors.c);
    dot(here, 6, colors.b);
    context.font = "13px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "top";
    context.fillStyle = colors.b;
    context.fillText(say("here", { at: data.position }), 4, 4);
    context.fillStyle = colors.c;
    if (twin.at !== null) context.fillText(say("twin", { at: twin.at }), 4, 22);
  };
}

function ring(context, cx, cy, radius, [x, y], color) {
  context.strokeStyle = color;
  context.lineWidth = 2.5;
  context.beginPath();
  context.arc(cx + x * radius, cy - y * radius, 9, 0, TURN);
  context.stroke();
}

function draw(stage, data, s, say) {
  const { points, lookalikes, period, position, count } = data;
  stage.paint(
    "circle",
    {
      title: say("circle_title"), half: true, height: 320,
      label: say("circle_label", { at: position, view: say(s.view) }),
    },
    circle(data, s, say),
  );
  stage.paint(
    "helix",
    {
      title: say("helix_title"), half: true, height: 320, drag: { x: "turn", y: "tilt" },
      label: say("helix_label", { count, period }),
    },
    helix(data, s, place),
  );
  const found = lookalikes.find(({ view }) => view === s.view);
  const marks = [{ x: position, label: say("here", { at: position }) }];
  if (found.at !== null) marks.push({ x: found.at, label: say("twin", { at: found.at }) });
  const wave = (key, color) => ({
    label: say(`wave_${key}`),
    y: points.map((point) => point[key]),
    color,
  });
  const waves = {
    both: [wave("sin", "a"), wave("cos", "d2")],
    sine: [wave("sin", "a")],
    cosine: [wave("cos", "d2")],
    unequal: [wave("sin", "a"), wave("other", "accent")],
  };
  stage.curves("waves", {
    title: say("waves_title"),
    height: 220,
    x: points.map((_, at) => at),
    series: waves[s.view],
    xLabel: say("axis_position"), yLabel: say("axis_value"), yRange: [-1.1, 1.1], marks,
  });
  stage.note(say("note", { period, pair: s.pair, frequency: data.frequency }));
  stage.table(
    [say("seen"), say("nearest"), say("apart")],
    lookalikes.map(({ view, at, apart }) => [say(view), at ?? "-", apart ?? "-"]),
  );
}

function table(data) {
  return {
    head: ["position", "sin", "cos", "cos_of_wrong_pair"],
    rows: data.points.map(({ sin, cos, other }, at) => [at, sin, cos, other]),
  };
}

function python(s) {
  const count = Math.min(s.length, MOST);
  const sinusoid = [`encoding = pe.Sinusoidal(dim=${s.d}, base=${s.base})  # interleaved: sine 2i, cosine 2i + 1`];
  const digits = [
    `speeds = [2 * torch.pi / 2 ** (i + 1) for i in range(${s.d / 2})]`,
    `encoding = pe.Waveform(${s.d}, frequencies=speeds)  # sine 2i, cosine 2i + 1`,
  ];
  return [
    "import torch",
    "import posenc as pe",
    "",
    ...(s.speeds === "digits" ? digits : sinusoid),
    `table = encoding.embed(torch.zeros(1, ${count}, ${s.d}, dtype=torch.float64), positions=None)[0]`,
    `sine, cosine = table[:, ${2 * s.pair}], table[:, ${2 * s.pair + 1}]`,
    `here = ${Math.min(s.position, count - 1)}`,
    "apart = (table - table[here]).norm(dim=-1)  # over all pairs",
    "print(float(sine[here]), float(cosine[here]), float(apart.sort().values[1]))",
    "",
  ].join("\n");
}

export const panel = {
  id: "circle", light: "position", lesson: "learn/frequencies_and_pairs", compute, draw, table, python,
  uses: ({ speeds }) => (speeds === "digits" ? ["d", "length"] : ["d", "base", "length"]),
  formula: ({ view, speeds }) => [
    [`PE_i(p) = (${WAVES[view]})`, `θ_i = ${speeds === "digits" ? "{2 π}/{2^{i+1}}" : "base^{-2i/d}"}`],
  ],
  controls: [
    { id: "pair", kind: "range", min: 0, max: (s) => s.d / 2 - 1, value: 8 },
    {
      id: "position",
      kind: "range",
      min: 0,
      max: (s) => Math.min(s.length, MOST) - 1,
      value: 10,
      play: true,
    },
    { id: "view", kind: "select", options: Object.keys(VIEWS), value: "both" },
    { id: "speeds", kind: "select", options: ["geometric", "digits"], value: "geometric" },
    { id: "turn", kind: "range", min: -90, max: 90, value: 28 },
    { id: "tilt", kind: "range", min: -90, max: 90, value: 22 },
  ],
  text: {
    en: {
      title: "Circle and helix",
      question:
        "Within one turn, can the sine alone tell all positions apart? Choose “sine only” and look for the ring.",
      answer:
        "No: the sine takes each value once on the way up and once on the way down, so two positions look alike; sine and cosine together are a point on a circle, which comes back only after a whole turn.",
      pair: "Pair i",
      position: "Position",
      view: "Seen through",
      speeds: "Speeds of the pairs",
      geometric: "a sinusoid's, by the base",
      digits: "binary digits",
      turn: "Turn the helix",
      tilt: "Tilt the helix",
      both: "sine and cosine",
      sine: "sine only",
      cosine: "cosine only",
      unequal: "wrong pair",
      circle_title: "One pair of dimensions: positions on a circle",
      circle_label: "Position {at} seen through: {view}.",
      helix_title: "The same along position (drag to turn)",
      helix_label: "A helix through {count} positions; one turn takes {period} positions.",
      waves_title: "The two waves",
      wave_sin: "sine",
      wave_cos: "cosine",
      wave_other: "cosine of another pair",
      axis_position: "position p",
      axis_value: "value",
      here: "position {at}",
      twin: "looks most like it: {at}",
      note: "Pair {pair} turns by {frequency} radians a token: a whole turn takes {period} positions. The ring marks the position within half a turn to each side that looks most like the chosen one; at a turning point of the wave that is the very next one.",
      seen: "seen through",
      nearest: "most alike position",
      apart: "how far apart they look",
    },
    zh: {
      title: "圆与螺旋线",
      question: "在一圈之内，只用正弦能分清所有位置吗？选“只看正弦”，看看圆环套在哪里。",
      answer:
        "不能：正弦上升时取一次的值，下降时会再取一次，于是两个位置看起来一样；正弦和余弦合起来是圆上的一个点，要转满一整圈才会重复。",
      pair: "第 i 对",
      position: "位置",
      view: "怎样看位置",
      speeds: "各对的转速",
      geometric: "正弦编码的频率，由基数决定",
      digits: "二进制位",
      turn: "转动螺旋线",
      tilt: "倾斜螺旋线",
      both: "正弦和余弦",
      sine: "只看正弦",
      cosine: "只看余弦",
      unequal: "错误配对",
      circle_title: "一对维度：位置排在圆上",
      circle_label: "位置 {at}，观察方式：{view}。",
      helix_title: "沿位置展开（可拖动）",
      helix_label: "穿过 {count} 个位置的螺旋线，每转一圈要走 {period} 个位置。",
      waves_title: "两条波",
      wave_sin: "正弦",
      wave_cos: "余弦",
      wave_other: "另一对的余弦",
      axis_position: "位置 p",
      axis_value: "值",
      here: "位置 {at}",
      twin: "与它最像的位置：{at}",
      note: "第 {pair} 对每前进一个词元转 {frequency} 弧度，转满一圈要 {period} 个位置。圆环标出前后各半圈之内与所选位置最像的那个位置；所选位置在波峰或波谷时，最像的就是紧邻的位置。",
      seen: "怎样看位置",
      nearest: "最像的位置",
      apart: "两者的差别",
    },
  },
};
