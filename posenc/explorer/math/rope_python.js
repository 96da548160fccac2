// Python that makes and measures a stretched rotation.
const optional = (name, value) => (value === null || value === undefined ? "" : `, ${name}=${value}`);
const numbers = (values) => `[${values.join(", ")}]`;

const SCALINGS = {
  none: () => "None",
  linear: (v) => `pe.Linear(${v.factor})`,
  ntk: (v) => `pe.NTK(${v.factor})`,
  dynamic_ntk: (v) => `pe.DynamicNTK(${v.factor}, original_length=${v.trained})`,
  yarn: (v) =>
    `pe.YaRN(${v.factor}, original_length=${v.trained}${optional("beta_fast", v.betaFast)}${optional("beta_slow", v.betaSlow)}` +
    `${v.truncate === false ? ", truncate=False" : ""}${optional("attention_factor", v.attentionFactor)}` +
    `${optional("mscale", v.mscale)}${optional("mscale_all_dim", v.mscaleAllDim)})`,
  longrope: (v) =>
    `pe.LongRoPE(\n    short=${numbers(v.short)},\n    long=${numbers(v.long)},\n` +
    `    original_length=${v.trained}, factor=${v.factor}${optional("attention_factor", v.attentionFactor)})`,
  llama3: (v) => `pe.Llama3(${v.factor}, ${v.lowFreqFactor}, ${v.highFreqFactor}, original_length=${v.trained})`,
  proportional: (v) => `pe.Proportional(${v.fraction})`,
};

/** What the panel found of one rotation, found by posenc. */
export function ropeInPython(row) {
  const { settings, name, trained, target } = row;
  const turned = row.headDim && row.headDim !== settings.d ? `, rotary_dim=${settings.d}` : "";
  const dim = row.headDim ?? settings.d;
  const clipped = name === "rerope";
  const farthest = (clipped ? trained : target) - 1;
  const rope = `base=${settings.base}${turned}`;
  const scaled = clipped
    ? `pe.ReRoPE(${dim}, window=${farthest}, ${rope})  # no distance counts as more than the window`
    : `pe.Rotary(${dim}, ${rope}, scaling=scaling)`;
  return `import math

import torch
import posenc as pe
from posenc.analysis import measure

scaling = ${clipped ? "None" : SCALINGS[name](settings)}
plain = pe.Rotary(${dim}, ${rope})
scaled = ${scaled}
w = measure.frequencies(plain)[0]
h = measure.frequencies(scaled, ${target})[0]
print("wavelengths:", measure.wavelengths(h))
once = w * (${trained} - 1) < 2 * math.pi
print("pairs that complete no turn in training:", int(once.sum()))
print("of these meet new angles:", int((once & (h * ${farthest} > w * ${trained} * (1 + 1e-9))).sum()))
`;
}
