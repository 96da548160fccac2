import { short } from "#core/numbers.js";
import { scalingFormula } from "#formulas/scalings.js";
import { standIns } from "#math/rope_config.js";
import { ropeInPython } from "#math/rope_python.js";
import { METHODS, compute } from "#math/stretched.js";

// Methods coincide for many pairs: where a dashed line lies on a whole one, both are seen.
const LOOKS = {
  none: { color: "a" },
  linear: { color: "b" },
  ntk: { color: "c" },
  dynamic_ntk: { color: "d2" },
  yarn: { color: "accent", dash: [9, 5] },
  llama3: { color: "a", dash: [3, 6] },
  longrope: { color: "ink", dash: [8, 3, 2, 3] },
  rerope: { color: "b", dash: [3, 6] },
};
const LLAMA_3_1 = `{
  "head_dim": 128,
  "max_position_embeddings": 131072,
  "rope_theta": 500000.0,
  "rope_scaling": {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192
  }
}`;

function draw(stage, data, s, say) {
  const { rows, chosen, config } = data;
  const most = Math.max(...rows.map((row) => row.wavelengths.length));
  const x = Array.from({ length: most }, (_, i) => i);
  const pick = rows[chosen];
  const name = (row) => (config && row !== rows[0] ? row.label : say(row.name));
  const padded = (y) => x.map((i) => y[i] ?? NaN);
  const level = (value) => x.map(() => value);
  const look = (row) => (config && row !== rows[0] ? {} : LOOKS[row.name]);
  stage.curves("wavelengths", {
    title: say("wavelengths_figure"), x, xLabel: say("pair"), yLabel: say("wavelength"), logY: true,
    series: [
      ...rows.map((row, i) => ({ label: name(row), y: padded(row.wavelengths.map(finite)), width: i === chosen ? 3.5 : 1.5, ...look(row) })),
      { label: say("trained_line", { length: pick.trained }), y: level(pick.trained), dash: [6, 4], color: "ink" },
      { label: say("target_line", { length: pick.target }), y: level(pick.target), dash: [2, 4], color: "muted" },
    ],
  });
  stage.curves("turns", {
    title: say("turns_figure", { method: name(pick) }), x, xLabel: say("pair"), yLabel: say("turns"), logY: true,
    series: [
      { label: say("in_training", { length: pick.trained }), y: padded(pick.turnsInTraining), color: "a", width: 2.5 },
      { label: say("at_target", { length: pick.target }), y: padded(pick.turnsAtTarget.map(finite)), color: "b", dash: [7, 4], width: 2.5 },
      { label: say("one_turn"), y: level(1), dash: [6, 4], color: "muted" },
    ],
  });
  stage.table(
    [say("method_column"), say("once_column"), say("fresh_column"), say("slowest_column"), say("gain_column")],
    rows.map((row) => [name(row), row.once, row.fresh, short(Number(slowest(row).toPrecision(4))), short(row.gain)]),
  );
  if (!config) stage.note(say(`${s.method}_note`, { factor: s.factor, target: pick.target, trained: pick.trained, farthest: pick.trained - 1 }));
  for (const row of config ? rows.slice(1) : []) {
    const { d, base } = row.settings;
    stage.note(say("config_read", { rope: row.label, d, headDim: row.headDim, base, trained: row.trained, target: row.target }));
  }
}

// A pair that does not turn has no wavelength.
const finite = (value) => (Number.isFinite(value) && value > 0 ? value : NaN);

/** Which texts say what the signs of a formula mean. */
function symbols(s, data) {
  if (data === null) return [];
  if (s.told === false) return ["symbols"];
  const named = (data.config ? data.rows.slice(1) : [data.rows[data.chosen]]).flatMap(({ name }) => SYMBOLS[name] ?? []);
  return ["symbols", ...new Set(named)];
}

const SYMBOLS = {
  dynamic_ntk: ["symbols_growth"],
  yarn: ["symbols_share", "symbols_gain"],
  llama3: ["symbols_share"],
  longrope: ["symbols_divisor", "symbols_gain"],
  rerope: ["symbols_counted"],
};

const slowest = (row) => Math.max(...row.wavelengths.filter(Number.isFinite));

function python(s) {
  const data = compute(s);
  return data.rows.slice(data.config ? 1 : data.chosen, data.config ? undefined : data.chosen + 1).map(ropeInPython).join("\n");
}

export const panel = {
  id: "stretching",
  lesson: "learn/scaling",
  uses: (s) => (s.method === "config" ? standIns(s.config, s) : ["d", "base", "trained"]),
  formula: scalingFormula,
  symbols,
  text: {
    en: {
      title: "Stretching the context",
      question: "A RoPE model is read at four times its trained length without any change. Which pairs meet angles that training never showed: the fast ones or the slow ones?",
      answer: "The slow ones: a pair that completed a turn in training has shown all its angles, and one that did not meets new ones.",
      more: "Every method but ReRoPE slows these down; they differ in what they do to the fast pairs.",
      method: "Method",
      none: "no scaling",
      linear: "linear",
      ntk: "NTK-aware base",
      dynamic_ntk: "dynamic NTK",
      yarn: "YaRN",
      llama3: "Llama 3",
      longrope: "LongRoPE",
      rerope: "ReRoPE (re-indexing)",
      config: "a model's config.json",
      factor: "Factor: target length / trained length",
      beta_fast: "beta_fast: turns in training above which a pair is kept",
      beta_slow: "beta_slow: turns in training below which it is interpolated",
      low: "low_freq_factor",
      high: "high_freq_factor",
      overlay: "All methods overlaid",
      config_hint: "Paste config.json here",
      wavelengths_figure: "Wavelength of every pair against the trained length",
      pair: "pair i, the fastest first",
      wavelength: "tokens per turn",
      trained_line: "trained length {length}",
      target_line: "target length {length}",
      turns_figure: "Turns between the farthest tokens: {method}",
      turns: "turns",
      in_training: "in training, at {length}",
      at_target: "scaled, at {length}",
      one_turn: "one turn",
      method_column: "method",
      once_column: "pairs under one turn in training",
      fresh_column: "of these with new angles at the target",
      slowest_column: "slowest wavelength",
      gain_column: "gain on cos and sin",
      none_note: "Slow pairs turn farther at {target} tokens than training ever showed.",
      linear_note: "Position interpolation: every pair turns {factor} times slower. No angle is new, but neighbours come {factor} times closer.",
      ntk_note: "A larger base: the fastest pair is kept, the slowest interpolated, those between partly, so some still meet new angles.",
      dynamic_ntk_note: "The base grows with the length of the input; up to the trained length nothing changes.",
      yarn_note: "Pairs that turned often are kept, those that turned less than beta_slow times are interpolated, with a ramp between; and scores get a gain.",
      llama3_note: "YaRN's idea with its own two thresholds, and without the gain.",
      longrope_note: "One divisor per pair, found by search for each model. Without a config the divisors here are only an example that grows from 1 to {factor}.",
      rerope_note: "No pair turns more slowly: every distance of {trained} tokens or more counts as {farthest}. Beyond that, tokens are not told apart, scores are computed twice, near and far, and keys must be cached unrotated.",
      symbols: "θ_i: radians by which a token turns pair i in training; h_i: with the method.",
      symbols_growth: "growth: the factor for the length that is read now.",
      symbols_share: "share_i: how much of its own speed a pair keeps, from 1 (fast pairs) to 0 (slow ones).",
      symbols_gain: "gain: what cosines and sines are multiplied by.",
      symbols_divisor: "divisor_i: by how much pair i turns more slowly, found by search for each model.",
      symbols_counted: "angle_i: between a query at m and a key at n.",
      config_read: "{rope}: {d} of {headDim} dimensions turn, base {base}, trained on {trained} tokens, target {target}.",
      config_empty: "Paste the text of a config.json into the field.",
      config_not_json: "This is not JSON: {reason}.",
      config_not_object: "A config.json is an object in braces, but this is {given}.",
      config_rope: "{key} must be an object in braces, but is {given}.",
      config_layers: "{given} kinds of layers are more than this panel can show (8).",
      config_type: "rope_type {type} is not known. Known are {known}.",
      config_unturned: "This model of type {type} has no RoPE: it tells positions in another way, and there is nothing to stretch.",
      config_otherwise: "This model of type {type} turns by rules of its own code, which this page does not have: posenc doctor config.json tells them.",
      config_missing: "{key} is missing.",
      config_number: "{key} must be a number above 0, but is {given}.",
      config_whole: "{key} must be a whole number, but is {given}.",
      config_range: "{key} is {given}, but must lie between {least} and {most}.",
      config_list: "{key} must be a list of {count} numbers, but is {given}.",
      config_count: "{key} has {given} numbers, but {count} pairs turn: one number per pair is needed.",
      config_heads: "hidden_size {hidden} divided by num_attention_heads {heads} gives no usable head size.",
      config_odd: "{given} dimensions cannot turn in pairs: an even number is needed.",
      config_proportional: "A proportional rope with factor {given} is not something posenc has; only factor 1.",
      one_pair: "With a single pair NTK has no meaning: it needs d of 4 or more.",
      betas: "beta_fast {betaFast} must not be smaller than beta_slow {betaSlow}.",
      ramp: "YaRN's ramp would run backwards: no pair turns {betaSlow} times within {trained} tokens. Take a longer trained length.",
    },
    zh: {
      title: "拉伸上下文",
      question: "把一个 RoPE 模型原封不动地用到训练长度的四倍。哪些维度对会遇到训练中从未出现的角度：快的还是慢的？",
      answer: "慢的：训练中转满一圈的维度对，所有角度都见过，没转满的会遇到新角度。",
      more: "除 ReRoPE 外，各种方法都是让这些慢的再慢下来，区别在于怎样对待快的。",
      method: "方法",
      none: "不缩放",
      linear: "线性插值",
      ntk: "NTK 感知基数",
      dynamic_ntk: "动态 NTK",
      yarn: "YaRN",
      llama3: "Llama 3",
      longrope: "LongRoPE",
      rerope: "ReRoPE（重编距离）",
      config: "模型的 config.json",
      factor: "倍数：目标长度 / 训练长度",
      beta_fast: "beta_fast：训练中转够这么多圈就保持不变",
      beta_slow: "beta_slow：训练中不到这么多圈就插值",
      low: "low_freq_factor",
      high: "high_freq_factor",
      overlay: "叠加所有方法",
      config_hint: "把 config.json 粘贴到这里",
      wavelengths_figure: "各维度对的波长与训练长度",
      pair: "维度对 i，最快的在前",
      wavelength: "转一圈的词元数",
      trained_line: "训练长度 {length}",
      target_line: "目标长度 {length}",
      turns_figure: "相距最远的词元之间转了几圈：{method}",
      turns: "圈数",
      in_training: "训练时，长度 {length}",
      at_target: "缩放后，长度 {length}",
      one_turn: "一圈",
      method_column: "方法",
      once_column: "训练中不满一圈的维度对",
      fresh_column: "其中在目标长度遇到新角度的",
      slowest_column: "最长的波长",
      gain_column: "cos 与 sin 的增益",
      none_note: "到 {target} 个词元时，慢的维度对转过的角度超出训练所见。",
      linear_note: "即位置插值：所有维度对都慢 {factor} 倍。没有新角度，但相邻词元也靠近了 {factor} 倍。",
      ntk_note: "换成更大的基数：最快的不变，最慢的完全插值，中间的只插值一部分，所以仍有一些遇到新角度。",
      dynamic_ntk_note: "基数随输入长度增大；不超过训练长度时什么都不变。",
      yarn_note: "转得多的维度对保持不变，不到 beta_slow 圈的插值，中间线性过渡；得分另乘一个增益。",
      llama3_note: "与 YaRN 思路相同，阈值是另外两个，且没有增益。",
      longrope_note: "每个维度对有自己的除数，由搜索得到。没有配置文件时，这里只用从 1 增长到 {factor} 的除数作示例。",
      rerope_note: "没有一对转得更慢：{trained} 个词元及更远的距离都当作 {farthest}。更远的词元彼此分不开；得分要算近、远两遍，缓存的键必须是未旋转的。",
      symbols: "θ_i：训练时一个词元使第 i 对转过的弧度；h_i：用这种方法时的弧度。",
      symbols_growth: "增长：当前读入长度所需的倍数。",
      symbols_share: "保留_i：一对维度保留多少自己的速度，从 1（快的）到 0（慢的）。",
      symbols_gain: "增益：cos 与 sin 所乘的数。",
      symbols_divisor: "除数_i：第 i 对转慢多少倍，由搜索为每个模型得到。",
      symbols_counted: "角度_i：位置 m 的查询与位置 n 的键之间的角度。",
      config_read: "{rope}：{headDim} 维中有 {d} 维旋转，基数 {base}，训练长度 {trained}，目标长度 {target}。",
      config_empty: "请把 config.json 的内容粘贴到输入框。",
      config_not_json: "这不是 JSON：{reason}。",
      config_not_object: "config.json 应是花括号里的对象，这里却是 {given}。",
      config_rope: "{key} 应是花括号里的对象，这里却是 {given}。",
      config_layers: "共有 {given} 种层，本面板最多显示 8 种。",
      config_type: "不认识 rope_type {type}。可用的有 {known}。",
      config_unturned: "这个 {type} 类模型没有 RoPE：它用别的方式表示位置，没有可拉伸的频率。",
      config_otherwise: "这个 {type} 类模型怎样旋转由它自己的代码决定，本页没有这些规则：可用 posenc doctor config.json 查看。",
      config_missing: "缺少 {key}。",
      config_number: "{key} 应是大于 0 的数，这里却是 {given}。",
      config_whole: "{key} 应是整数，这里却是 {given}。",
      config_range: "{key} 为 {given}，应在 {least} 与 {most} 之间。",
      config_list: "{key} 应是 {count} 个数的列表，这里却是 {given}。",
      config_count: "{key} 有 {given} 个数，而旋转的维度对有 {count} 个：每对需要一个数。",
      config_heads: "hidden_size {hidden} 除以 num_attention_heads {heads}，得不到可用的头维度。",
      config_odd: "{given} 维无法两两配对：需要偶数。",
      config_proportional: "posenc 没有倍数为 {given} 的 proportional，只支持倍数 1。",
      one_pair: "只有一个维度对时 NTK 没有意义：d 至少要 4。",
      betas: "beta_fast {betaFast} 不能小于 beta_slow {betaSlow}。",
      ramp: "YaRN 的过渡区会反向：在 {trained} 个词元内没有维度对能转 {betaSlow} 圈。请加大训练长度。",
    },
  },
  controls: [
    {
      id: "method", kind: "select", options: [...METHODS, "config"], value: "linear",
      // A chapter that has not told its answer knows no method.
      show: (s) => s.told !== false,
    },
    {
      id: "factor", kind: "range", min: 1, max: 64, step: 0.1, scale: "log", value: 4,
      show: (s) => s.method !== "config" || standIns(s.config, s).includes("factor"),
    },
    { id: "overlay", kind: "toggle", value: true, show: (s) => s.method !== "config" },
    { id: "beta_slow", kind: "range", min: 0.5, max: 8, step: 0.5, value: 1, show: (s) => s.method === "yarn" },
    {
      id: "beta_fast", kind: "range", min: (s) => Math.ceil(s.beta_slow), max: 128, step: 1, value: 32,
      show: (s) => s.method === "yarn",
    },
    { id: "low", kind: "range", min: 0.5, max: 8, step: 0.5, value: 1, show: (s) => s.method === "llama3" },
    {
      id: "high", kind: "range", min: (s) => Math.ceil(s.low), max: 32, step: 1, value: 4,
      show: (s) => s.method === "llama3",
    },
    { id: "config", kind: "text", lines: 10, value: LLAMA_3_1, show: (s) => s.method === "config" },
  ],
  compute,
  draw,
  table(data) {
    const head = ["method", "pair", "tokens per turn", "turns in training", "turns at the target length"];
    const rows = data.rows.flatMap((row) =>
      row.wavelengths.map((length, i) => [row.label, i, length, row.turnsInTraining[i], row.turnsAtTarget[i]]),
    );
    return { head, rows };
  },
  python,
};
