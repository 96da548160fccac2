import { short } from "#core/numbers.js";
import data from "#data/trained.js";
import { ENCODINGS } from "#formulas/encodings.js";
import { dot } from "#math/dot.js";
import { along, principal } from "#math/principal.js";

const { rows: ROWS, dim: DIM, trainLength: TRAINED } = data;

const runOf = (s) => data.runs.find((run) => run.encoding === s.table && run.steps === Number(s.steps));

/** The table of a run: rows of numbers, out of one byte each. */
function tableOf({ values, scale }) {
  const bytes = Int8Array.from(atob(values), (byte) => byte.charCodeAt(0));
  return Array.from({ length: ROWS }, (_, n) =>
    Float64Array.from(bytes.subarray(n * DIM, (n + 1) * DIM), (value) => value * scale),
  );
}

const norm = (row) => Math.sqrt(dot(row, row));

function compute(s) {
  const run = runOf(s);
  const rows = tableOf(run);
  const found = principal(rows.slice(0, TRAINED), 3);
  const compared = s.centred ? rows.map((row) => row.map((x, j) => x - found.mean[j])) : rows;
  const sizes = compared.map(norm);
  const cosines = compared.map(() => new Float64Array(ROWS));
  for (let i = 0; i < ROWS; i++) {
    for (let j = 0; j <= i; j++) {
      cosines[i][j] = cosines[j][i] = dot(compared[i], compared[j]) / (sizes[i] * sizes[j] || 1);
    }
  }
  const steps = rows.slice(1).map((row, n) => norm(row.map((x, j) => x - rows[n][j])));
  return { rows, cosines, steps, norms: rows.map(norm), paths: along(rows, found), shares: found.shares, loss: run.loss };
}

function drawPath(ctx, width, height, colors, [x, y], position, names) {
  const reach = Math.max(...x.map(Math.abs), ...y.map(Math.abs)) || 1;
  const size = Math.min(width, height) / 2 - 14;
  const at = (n) => [width / 2 + (size * x[n]) / reach, height / 2 - (size * y[n]) / reach];
  ctx.strokeStyle = colors.grid;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(width / 2 - size, height / 2);
  ctx.lineTo(width / 2 + size, height / 2);
  ctx.moveTo(width / 2, height / 2 - size);
  ctx.lineTo(width / 2, height / 2 + size);
  ctx.stroke();
  ctx.font = "12px system-ui, sans-serif";
  ctx.fillStyle = colors.muted;
  ctx.textAlign = "right";
  ctx.textBaseline = "top";
  ctx.fillText(names[0], width - 2, height / 2 + 40);
  ctx.textAlign = "center";
  ctx.fillText(names[1], width / 2, 0);
  const parts = [
    [0, TRAINED - 1, colors.a],
    [TRAINED - 1, ROWS - 1, colors.b],
  ];
  ctx.textAlign = "left";
  parts.forEach(([from, to, color], row) => {
    ctx.fillStyle = color;
    ctx.fillText(`${from + row} – ${to}`, 2, 16 * row);
  });
  for (const [from, to, color] of parts) {
    ctx.strokeStyle = color;
    ctx.fillStyle = color;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    for (let n = from; n <= to; n++) n === from ? ctx.moveTo(...at(n)) : ctx.lineTo(...at(n));
    ctx.stroke();
    for (let n = from; n <= to; n++) {
      ctx.beginPath();
      ctx.arc(...at(n), 2.5, 0, 2 * Math.PI);
      ctx.fill();
    }
  }
  ctx.strokeStyle = colors.ink;
  ctx.lineWidth = 2.5;
  ctx.beginPath();
  ctx.arc(...at(position), 7, 0, 2 * Math.PI);
  ctx.stroke();
}

function draw(stage, found, s, say) {
  const positions = found.rows.map((_, n) => n);
  const mark = [{ x: TRAINED, label: say("trained_to", { length: TRAINED }) }];
  stage.heatmap("table", {
    title: say("table_figure"), half: true, rows: ROWS, cols: DIM, values: found.rows, palette: "diverging",
    xLabel: say("dimension"), yLabel: say("position_axis"),
    hover: (row, col) => say("cell_at", { row, col, value: short(found.rows[row][col]) }),
  });
  stage.heatmap("cosines", {
    title: say("cosine_figure"), half: true, rows: ROWS, cols: ROWS, values: found.cosines, palette: "diverging",
    xLabel: say("position_axis"), yLabel: say("position_axis"), range: [-1, 1],
    hover: (row, col) => say("cosine_at", { row, col, value: short(found.cosines[row][col]) }),
  });
  const names = found.shares.map((share, i) => say("component", { number: i + 1, share: percent(share) }));
  const label = say("path_label", { length: TRAINED });
  stage.paint("path", { title: say("path_figure"), half: true, height: 300, label }, (ctx, width, height, colors) =>
    drawPath(ctx, width, height, colors, found.paths, s.position, names),
  );
  stage.curves("components", {
    title: say("components_figure"), half: true, x: positions, marks: mark,
    series: found.paths.map((y, i) => ({ label: say("component", { number: i + 1, share: percent(found.shares[i]) }), y })),
    xLabel: say("position_axis"), yLabel: say("along"),
  });
  stage.curves("cosine", {
    title: say("row_figure", { position: s.position }), half: true, x: positions, marks: mark,
    series: [{ label: say("cosine"), y: found.cosines[s.position], width: 2 }],
    xLabel: say("position_axis"), yLabel: say("cosine"),
  });
  stage.curves("norms", {
    title: say("norms_figure"), half: true, x: positions, marks: mark,
    series: [
      { label: say("norm"), y: found.norms, width: 2 },
      { label: say("step"), y: [NaN, ...found.steps] },
    ],
    xLabel: say("position_axis"), yLabel: say("size"),
  });
  const lengths = { trained: TRAINED, rows: ROWS };
  if (found.loss === null) stage.note(say("begun_note", lengths));
  else {
    const [near, far] = [TRAINED, ROWS].map((length) => found.loss[length]?.toFixed(3) ?? "-");
    stage.note(say("loss_note", { ...lengths, steps: s.steps, near, far }));
  }
}

const percent = (share) => `${Math.round(100 * share)}%`;

function python(s) {
  return `import base64
import json
from importlib.resources import files

import torch
import posenc as pe

# What tools/trained_tables.py trained with posenc's lab:
# ${data.commands[Math.max(0, data.steps.indexOf(Number(s.steps)) - 1)]}
text = files("posenc").joinpath("explorer/data/trained.js").read_text("utf-8")
data = json.loads(text[text.index("{") : text.rindex("}") + 1])
run = next(r for r in data["runs"] if (r["encoding"], r["steps"]) == ("${s.table}", ${s.steps}))
values = torch.frombuffer(bytearray(base64.b64decode(run["values"])), dtype=torch.int8)
rows = values.view(data["rows"], data["dim"]).double() * run["scale"]
encoding = pe.Learned.from_rows(rows)
trained = encoding.weight.detach()[: data["trainLength"]]
${s.centred ? "compared = rows - trained.mean(dim=0)" : "compared = rows"}
cosines = torch.nn.functional.cosine_similarity(compared[:, None], compared[None], dim=-1)
print(cosines[${s.position}])
print("sizes:", rows.norm(dim=-1))
`;
}

export const panel = {
  id: "trained",
  light: "position",
  lesson: "learn/learned",
  uses: [],
  formula: ({ table }) => [
    ["cos(m, n) = {p_m · p_n}/{|p_m| |p_n|}", ...ENCODINGS[table]()],
  ],
  text: {
    en: {
      title: "Trained tables",
      question: `These tables have ${ROWS} rows, but training only ever read the first ${TRAINED}. What will the other rows of the learned table look like?`,
      answer: "They stay as they began, for nothing ever touched them.",
      more: "FLOATER's path goes on smoothly where training ended, but through places that no model has learned to read. ALiBi has no rows to train: one rule gives every farther key a larger penalty, so that the keys which are new at a greater length get next to no weight.",
      table: "Table",
      learned: "learned",
      floater: "FLOATER",
      steps: "Steps of training",
      centred: "Compare rows without their mean",
      position: "Position",
      table_figure: "The table",
      dimension: "dimension",
      position_axis: "position",
      cell_at: "position {row}, dimension {col}: {value}",
      cosine_figure: "How alike are two rows? Cosine",
      cosine_at: "positions {row} and {col}: {value}",
      path_figure: "The rows in their two main directions",
      path_label: "Path of the rows along their two main directions; positions from {length} on in another colour",
      components_figure: "The rows along their main directions",
      component: "direction {number} ({share})",
      along: "along it",
      row_figure: "Cosine with the row of position {position}",
      cosine: "cosine",
      norms_figure: "Size of each row, and step from the row before",
      norm: "size",
      step: "step",
      size: "length of the vector",
      trained_to: "trained to here: {length}",
      begun_note: "Before training: what the first step starts from.",
      loss_note: "After {steps} steps the loss is {near} at {trained} tokens, as in training, and {far} at {rows} tokens, on the same targets.",
    },
    zh: {
      title: "训练出来的位置表",
      question: `这些表有 ${ROWS} 行，但训练只用过前 ${TRAINED} 行。可学习的表里，其余的行会是什么样子？`,
      answer: "它们从未被用到，保持初始的样子。",
      more: "FLOATER 的轨迹在训练结束处平滑地延续，但模型从未学过怎样读后面那一段。ALiBi 没有要训练的行：同一条规则给越远的键越大的惩罚，所以文本变长后新出现的键几乎得不到权重。",
      table: "位置表",
      learned: "可学习",
      floater: "FLOATER",
      steps: "训练步数",
      centred: "先减去各行的均值再比较",
      position: "位置",
      table_figure: "位置表",
      dimension: "维度",
      position_axis: "位置",
      cell_at: "位置 {row}，维度 {col}：{value}",
      cosine_figure: "两行有多像？余弦相似度",
      cosine_at: "位置 {row} 与 {col}：{value}",
      path_figure: "各行在两个主方向上的位置",
      path_label: "各行沿两个主方向的轨迹；位置 {length} 之后换一种颜色",
      components_figure: "各行沿主方向的坐标",
      component: "方向 {number}（{share}）",
      along: "坐标",
      row_figure: "与位置 {position} 那一行的余弦相似度",
      cosine: "余弦相似度",
      norms_figure: "每行的长度，以及与前一行的距离",
      norm: "长度",
      step: "步长",
      size: "向量长度",
      trained_to: "训练到此为止：{length}",
      begun_note: "训练之前：第一步的起点。",
      loss_note: "训练 {steps} 步后，在 {trained} 个词元（训练长度）上的损失为 {near}；目标相同、输入 {rows} 个词元时为 {far}。",
    },
  },
  controls: [
    { id: "table", kind: "select", options: ["learned", "floater"], value: "learned" },
    { id: "steps", kind: "select", options: data.steps.map(String), value: String(data.steps.at(-1)) },
    { id: "centred", kind: "toggle", value: true },
    { id: "position", kind: "range", min: 0, max: ROWS - 1, step: 1, value: 40, play: true },
  ],
  compute,
  draw,
  table(found) {
    const head = ["position", ...Array.from({ length: DIM }, (_, j) => `p${j}`)];
    return { head, rows: found.rows.map((row, n) => [n, ...row]) };
  },
  python,
};
