import { dot } from "#math/dot.js";
import { fixed } from "#math/fixed.js";
import { vector } from "#math/ordinal.js";

const WIDTH = 8;
const DEGREES = 180 / Math.PI;

function compute({ tokens, position, divided }) {
  const words = [fixed(WIDTH), fixed(WIDTH, WIDTH)];
  const number = (n) => vector(divided ? n / tokens : n)[0];
  const angle = between(words);
  const angles = Array.from({ length: tokens - 1 }, (_, n) => angle(number(n), number(n + 1)));
  return {
    rows: words.map((word, i) => [...word, number(position + i)]),
    angles,
    angle: angles[position],
    without: angle(0, 0),
    step: number(position + 1) - number(position),
  };
}

/** Degrees between two words, as a function of the number beside each. */
function between([x, y]) {
  const [xx, yy, xy] = [dot(x, x), dot(y, y), dot(x, y)];
  return (one, other) => {
    const cosine = (xy + one * other) / Math.sqrt((xx + one * one) * (yy + other * other));
    return DEGREES * Math.acos(Math.min(1, cosine));
  };
}

function draw(stage, data, s, say) {
  const { rows, angles, without, step } = data;
  stage.heatmap("vectors", {
    title: say("vectors_figure"),
    rows: 2, cols: WIDTH + 1, values: rows, palette: "diverging", height: 130,
    xLabel: say("dimension"), yLabel: say("position"),
    rowLabel: (row) => String(s.position + row),
  });
  stage.curves("angles", {
    title: say("angles_figure"),
    x: angles.map((_, n) => n),
    series: [
      { label: say("with_number"), y: angles, color: "a", width: 2.25 },
      { label: say("without"), y: angles.map(() => without), color: "b", dash: [6, 4] },
    ],
    xLabel: say("position"), yLabel: say("angle_axis"), yRange: [0, 1.1 * Math.max(without, ...angles.slice(0, 2))],
    marks: [{ x: s.position, label: say("here", { n: s.position }) }],
    pick: (position) => ({ position }), lit: s.position,
  });
  stage.note(say("summary", { n: s.position, next: s.position + 1, angle: data.angle, without, step }));
}

function python(s) {
  const at = `torch.tensor([${s.position}, ${s.position + 1}])`;
  return `import torch
import posenc as pe

i = torch.arange(1, ${2 * WIDTH + 1}, dtype=torch.float64)
words = ((i * i).sin() / 2).view(1, 2, ${WIDTH})  # (batch, tokens, width)
at = ${s.divided ? `${at} / torch.tensor(${s.tokens}, dtype=torch.float64)` : at}
vectors = pe.Ordinal(merge="concat").embed(words, at)[0]


def angle(x, y):
    return torch.rad2deg(torch.acos(torch.cosine_similarity(x, y, dim=-1)))


print("angle of the words alone", angle(*words[0]).item())
print("angle with their numbers", angle(*vectors).item())
print("step from one to the next", (vectors[1, -1] - vectors[0, -1]).item())
`;
}

export const panel = {
  id: "number",
  light: "position",
  lesson: "learn/integers_and_binary",
  uses: [],
  formula: ({ divided }) => [
    divided
      ? ["p_n = {n}/{L}", "p_{n+1} - p_n = {1}/{L}"]
      : ["p_n = n", "p_{n+1} - p_n = 1"],
  ],
  text: {
    en: {
      title: "A position as a number",
      question: "Two words with vectors of size about 1 stand at positions 998 and 999, which are written beside them. How large is the angle between the two vectors?",
      answer: "About a tenth of a degree, where the words alone are nearly at a right angle: beside the position they are a rounding error.",
      more: "Divided by the length of the text the number stays below 1, but one step is then 1/10 in one text and 1/1000 in another. bfloat16 keeps 8 significant bits, so that in it 256 and 257 are the same number.",
      tokens: "Length L of the text",
      divided: "Divide by the length",
      position: "Position n",
      vectors_figure: "Two words, and in the last column their positions",
      dimension: "dimension",
      angles_figure: "The angle between a word at n and another at n + 1",
      with_number: "with the number",
      without: "the words alone",
      angle_axis: "degrees",
      here: "n = {n}",
      summary: "At {n} and {next} the angle is {angle} degrees; that of the words alone is {without}. One step changes the number by {step}.",
    },
    zh: {
      title: "用一个数表示位置",
      question: "两个词的向量大小约为 1，分别在位置 998 和 999，并把位置写在旁边。这两个向量的夹角有多大？",
      answer: "大约十分之一度，而两个词本身几乎垂直：与位置相比，词只算舍入误差。",
      more: "除以文本长度，数字就小于 1，可是走一步在这篇文本里是 1/10，在那篇里是 1/1000。bfloat16 只有 8 位有效数字，256 和 257 在其中是同一个数。",
      tokens: "文本长度 L",
      divided: "除以长度",
      position: "位置 n",
      vectors_figure: "两个词，最后一列是它们的位置",
      dimension: "维度",
      angles_figure: "n 处的词与 n + 1 处的另一个词的夹角",
      with_number: "带上位置的数",
      without: "只有词",
      angle_axis: "度",
      here: "n = {n}",
      summary: "在 {n} 和 {next} 处，夹角为 {angle} 度；只看词，夹角为 {without} 度。走一步，数字改变 {step}。",
    },
  },
  controls: [
    {
      id: "tokens", kind: "range", min: 10, max: 10_000, step: 1, value: 1000,
      stops: [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000],
    },
    { id: "divided", kind: "toggle", value: false },
    { id: "position", kind: "range", min: 0, max: (s) => s.tokens - 2, step: 1, value: 998, play: true },
  ],
  compute,
  draw,
  table: ({ angles }) => ({
    head: ["position", "angle_with_the_next"],
    rows: angles.map((value, n) => [n, value]),
  }),
  python,
};
