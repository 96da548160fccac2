// Every encoding of posenc.encodings(), by name: what the page shows of it, and how to compute it.
import { absolutes } from "#math/absolutes.js";
import { biases } from "#math/biases.js";
import { contents } from "#math/contents.js";
import { dealer, fixed } from "#math/fixed.js";
import { rotations } from "#math/rotations.js";
import { entries, hasTable, read } from "#math/tables.js";

// A table that its formula makes row by row is made up to so many positions.
const ROWS = { learned: 1024, recurrent: 256, floater: 128 };
const half = (s) => Math.max(1, Math.floor(s.trained / 2));
const pairs = (s) => s.d / 2;
const spread = (dim) => Math.sqrt(2 / dim);

function sections(s) {
  const space = Math.max(1, Math.floor((3 * pairs(s)) / 8));
  return pairs(s) < 3 ? Array(pairs(s)).fill(1) : [pairs(s) - 2 * space, space, space];
}

function grid(length) {
  const width = Math.floor(Math.sqrt(length - 1)) + 1;
  return [Math.ceil(length / width), width];
}

/**
 * name -> { kind, family, label, settings }. kind is the class in Python, settings its constructor's
 * arguments for the page's own settings s; amplitude is that of the numbers in place of trained ones.
 */
const written = {
  none: {
    kind: "NoPE", family: "none", settings: () => ({}),
    label: { en: "none (NoPE)", zh: "无位置编码 NoPE" },
  },
  ordinal: {
    kind: "Ordinal", family: "absolute", settings: () => ({ merge: "concat" }),
    label: { en: "plain integers", zh: "整数位置" },
  },
  binary: {
    kind: "Binary", family: "absolute", settings: (s) => ({ dim: s.d }),
    label: { en: "binary digits", zh: "二进制数位" },
  },
  sinusoidal: {
    kind: "Sinusoidal", family: "absolute",
    settings: (s) => ({ dim: s.d, base: s.base, layout: s.layout ?? "interleaved" }),
    label: { en: "sinusoidal", zh: "正弦位置编码" },
  },
  waveform: {
    kind: "Waveform", family: "absolute",
    settings: (s) => ({ dim: s.d, wave: "triangle", base: s.base }),
    label: { en: "triangle waves", zh: "三角波" },
  },
  learned: {
    kind: "Learned", family: "absolute", amplitude: () => 0.02 * Math.SQRT2,
    settings: (s) => ({ dim: s.d, max_length: Math.min(s.length, ROWS.learned) }),
    label: { en: "learned table", zh: "可学习位置表" },
  },
  recurrent: {
    kind: "Recurrent", family: "absolute", amplitude: spread,
    settings: (s) => ({ dim: s.d, max_length: Math.min(s.length, ROWS.recurrent) }),
    label: { en: "recurrent", zh: "递归式" },
  },
  floater: {
    kind: "FLOATER", family: "absolute", amplitude: spread,
    settings: (s) => ({ dim: s.d, max_length: Math.min(s.length, ROWS.floater) }),
    label: { en: "FLOATER", zh: "FLOATER（神经微分方程）" },
  },
  rotary: {
    kind: "Rotary", family: "rotary",
    settings: (s) => ({ dim: s.d, base: s.base, layout: s.layout ?? "half" }),
    label: { en: "RoPE", zh: "旋转位置编码 RoPE" },
  },
  xpos: {
    kind: "XPos", family: "rotary", settings: (s) => ({ dim: s.d, base: s.base }),
    label: { en: "xPos", zh: "xPos（带衰减的旋转）" },
  },
  learned_rotary: {
    kind: "LearnedRotary", family: "rotary", untrained: true,
    settings: (s) => ({ dim: s.d, base: s.base }),
    label: { en: "RoPE, trained frequencies", zh: "可学习频率的旋转" },
  },
  rerope: {
    kind: "ReRoPE", family: "rotary",
    settings: (s) => ({ dim: s.d, window: half(s), base: s.base }),
    label: { en: "ReRoPE", zh: "ReRoPE（窗口外距离截断）" },
  },
  self_extend: {
    kind: "SelfExtend", family: "rotary",
    settings: (s) => ({ dim: s.d, window: half(s), group: 4, base: s.base }),
    label: { en: "Self-Extend", zh: "Self-Extend（窗口外分组）" },
  },
  lm_infinite: {
    kind: "LMInfinite", family: "rotary",
    settings: (s) => ({ dim: s.d, window: s.trained, base: s.base }),
    label: { en: "LM-Infinite", zh: "LM-Infinite（Λ 形掩码）" },
  },
  axial: {
    kind: "AxialRotary", family: "rotary",
    // Each of two axes turns whole pairs.
    settings: (s) => ({ dim: Math.max(4, s.d - (s.d % 4)), grid: grid(s.length), base: s.base }),
    label: { en: "axial RoPE (rows and columns)", zh: "轴向旋转（行与列）" },
  },
  mrope: {
    kind: "MRoPE", family: "rotary",
    settings: (s) => ({ dim: s.d, sections: sections(s), base: s.base }),
    label: { en: "M-RoPE", zh: "多模态旋转 M-RoPE" },
  },
  alibi: {
    kind: "ALiBi", family: "bias", settings: (s) => ({ heads: s.heads }),
    label: { en: "ALiBi", zh: "ALiBi（线性偏置）" },
  },
  t5: {
    kind: "T5Bias", family: "bias", settings: (s) => ({ heads: s.heads }),
    label: { en: "T5 bias", zh: "T5 相对位置偏置" },
    // Trained biases fall with distance on either side, in some heads with a wave.
    trained: ({ heads, buckets = 32, bidirectional = false }) =>
      Float64Array.from({ length: buckets * heads }, (_, n) => {
        const [bucket, head] = [Math.floor(n / heads), n % heads];
        const side = bidirectional ? buckets / 2 : buckets;
        const step = (bucket % side) + Math.floor(bucket / side);
        return Math.cos((step * head) / 8) - step / (4 * (head + 1));
      }),
    python: ({ heads, buckets = 32, bidirectional = false }) => [
      `bucket = torch.arange(${buckets}, dtype=torch.float64)[:, None]`,
      ...(bidirectional ? [`step = bucket % ${buckets / 2} + bucket // ${buckets / 2}`] : ["step = bucket"]),
      `head = torch.arange(${heads}, dtype=torch.float64)`,
      "encoding.weight.data = (step * head / 8).cos() - step / (4 * (head + 1))",
    ],
  },
  kerple: {
    kind: "KERPLE", family: "bias", settings: (s) => ({ heads: s.heads }),
    label: { en: "KERPLE", zh: "KERPLE（核偏置）" },
    // r1 = 1 and r2 = (head + 1) / heads.
    trained: ({ heads }) =>
      Float64Array.from({ length: 2 * heads }, (_, n) =>
        n < heads ? 0 : Math.log((n - heads + 1) / heads),
      ),
    python: ({ heads }) => [
      "encoding.log_r1.data.zero_()",
      `encoding.raw_r2.data = (torch.arange(1.0, ${heads + 1}, dtype=torch.float64) / ${heads}).log()`,
    ],
  },
  sandwich: {
    kind: "Sandwich", family: "bias",
    settings: (s) => ({ heads: s.heads, dim: s.d, base: s.base }),
    label: { en: "Sandwich", zh: "Sandwich（正弦内积偏置）" },
  },
  fire: {
    kind: "FIRE", family: "bias", amplitude: () => 0.5,
    settings: (s) => ({ heads: s.heads, initial_threshold: half(s) }),
    label: { en: "FIRE", zh: "FIRE（小网络偏置）" },
  },
  shaw: {
    kind: "Shaw", family: "content", amplitude: spread,
    settings: (s) => ({ dim: s.d, clip: 16 }),
    label: { en: "Shaw", zh: "Shaw 相对位置" },
  },
  transformer_xl: {
    kind: "TransformerXL", family: "content", amplitude: spread,
    settings: (s) => ({ dim: Math.min(s.d, 64), heads: s.heads, head_dim: s.d, base: s.base }),
    label: { en: "Transformer-XL", zh: "Transformer-XL" },
  },
  deberta: {
    kind: "DeBERTa", family: "content", amplitude: spread,
    settings: (s) => ({
      dim: Math.min(s.d, 32), heads: s.heads, span: 128, buckets: 32,
      head_dim: s.d, projections: "own",
    }),
    label: { en: "DeBERTa", zh: "DeBERTa（解耦注意力）" },
  },
  cope: {
    kind: "CoPE", family: "content", amplitude: spread,
    settings: (s) => ({ dim: s.d, max_position: 64 }),
    label: { en: "CoPE", zh: "CoPE（按内容计数）" },
  },
  forget_gate: {
    kind: "ForgetGate", family: "content", settings: (s) => ({ dim: s.d, heads: s.heads }),
    label: { en: "forget gate", zh: "遗忘门" },
    // Gates that do not read the token, of half-lives that differ from head to head.
    trained: ({ dim, heads }) =>
      Float64Array.from({ length: heads * dim + heads }, (_, n) => Math.max(n - heads * dim + 1, 0)),
    python: ({ heads }) => [
      "encoding.gate.weight.data.zero_()",
      `encoding.gate.bias.data = torch.arange(1.0, ${heads + 1}, dtype=torch.float64)`,
    ],
  },
  window: {
    kind: "SlidingWindow", family: "mask", settings: (s) => ({ width: half(s) }),
    label: { en: "sliding window", zh: "滑动窗口" },
  },
  sinks: {
    kind: "Sinks", family: "mask", settings: () => ({ count: 4 }),
    label: { en: "attention sinks", zh: "汇点" },
  },
  temperature: {
    kind: "Temperature", family: "scale",
    settings: (s) => ({ kind: "log_n", original_length: s.trained }),
    label: { en: "log-n temperature", zh: "对数温度" },
  },
};

/** Those above, and whatever else Python told of. */
export const catalogue = { ...written, ...entries };

const builders = { ...absolutes, ...rotations, ...biases, ...contents };

/**
 * An encoding from its constructor's settings: what the files of its family say it consists of.
 *
 * deal(...shape) gives its parameters in the order in which Python lists them; length is that of the
 * input, for what reads it; layer { projectQ, projectK } gives the layer's own projections.
 */
export function build(name, settings, deal = dealer(), length = null, layer = null) {
  const { kind, family } = catalogue[name];
  if (hasTable(name)) return { name, kind, family, settings, ...read(name) };
  return { name, kind, family, settings, ...builders[name](settings, deal, length, layer) };
}

/** An encoding with the settings that suit the page's own: { d, base, length, heads, trained }. */
export function make(name, s, settings = catalogue[name].settings(s)) {
  const entry = catalogue[name];
  return build(name, settings, dealt(entry, settings), s.length);
}

// One tensor after another out of what stands for trained numbers, or null: as before training.
function dealt(entry, settings) {
  if (entry.untrained) return () => null;
  const amplitude = entry.amplitude?.(settings.dim) ?? 0.5;
  const trained = entry.trained?.(settings);
  let from = 0;
  return (...shape) => {
    const size = shape.reduce((product, n) => product * n, 1);
    from += size;
    return trained?.slice(from - size, from) ?? fixed(size, from - size, amplitude);
  };
}

const literal = (value) => {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `(${value.map(literal).join(", ")}${value.length === 1 ? "," : ""})`;
  return typeof value === "string" ? `"${value}"` : String(value);
};

/** Lines of Python that make the same encoding with the same numbers, by the name `encoding`. */
export function python(name, s, settings = catalogue[name].settings(s)) {
  const entry = catalogue[name];
  const given = Object.entries(settings).map(([key, value]) => `${key}=${literal(value)}`);
  const lines = entry.construction?.split("\n") ?? [
    `encoding = pe.${entry.kind}(${given.join(", ")}).double()`,
  ];
  if (entry.python) lines.push(...entry.python(settings));
  else if (entry.amplitude) {
    lines.push(
      "start = 0",
      "for p in encoding.parameters():  # fixed numbers in place of trained ones",
      "    if p.ndim:",
      "        n = torch.arange(start + 1, start + p.numel() + 1, dtype=torch.float64)",
      `        p.data = (${entry.amplitude(settings.dim)} * (n * n).sin()).view_as(p)`,
      "        start += p.numel()",
    );
  }
  return lines;
}
