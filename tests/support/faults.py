"""Faults to plant, one at a time, in the spine and in good encodings; each names who catches it.

A fault replaces text in the source of one function. The text must be there, so a fault cannot
quietly stop being planted when the code around it moves.
"""

import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

import posenc as pe
from posenc.encoding import Encoding
from posenc.terms import Slope


@dataclass(frozen=True)
class Fault:
    name: str
    target: str
    old: str
    new: str
    encoding: Callable[[], Encoding]
    caught_by: str


def rope() -> Encoding:
    return pe.Rotary(16)


def second_rope() -> Encoding:
    """Made after another of the same size has run."""
    pe.Rotary(16, base=500.0).frequencies()
    return pe.Rotary(16)


def dynamic() -> Encoding:
    return pe.Rotary(16, scaling=pe.DynamicNTK(2.0, original_length=4))


def alibi() -> Encoding:
    return pe.ALiBi(4)


def t5() -> Encoding:
    return pe.T5Bias(4, buckets=8, max_distance=20)


def shaw() -> Encoding:
    return pe.Shaw(16, clip=3)


def sinusoid() -> Encoding:
    return pe.Sinusoidal(16)


def forget_gate() -> Encoding:
    return pe.ForgetGate(16, 4)


def cope() -> Encoding:
    return pe.CoPE(16, max_position=5)


class SlopedCoPE(pe.CoPE):
    """CoPE beside a bias, which must not open or close its gates."""

    def lower(self, positions, context=None, *, dtype=torch.float32):
        slope = Slope(torch.full((4,), 0.5, dtype=dtype))
        return slope, *super().lower(positions, context, dtype=dtype)

    def reference_scores(self, q, k, at):
        return super().reference_scores(q, k, at) - 0.5 * at.distance().abs()


FAULTS = [
    Fault(
        "positions in the activation dtype, rotary",
        "posenc.encodings._turning:angle",
        ".double()",
        ".bfloat16()",
        rope,
        "check_far_positions",
    ),
    Fault(
        "positions in the activation dtype, sinusoidal",
        "posenc.encodings.sinusoidal:Sinusoidal.table",
        "positions.double()",
        "positions.bfloat16().double()",
        sinusoid,
        "check_low_precision",
    ),
    Fault(
        "angles kept in float32",
        "posenc.rotation:cos_sin",
        "angle.cos(), angle.sin()",
        "angle.float().cos(), angle.float().sin()",
        rope,
        "check_far_positions",
    ),
    Fault(
        "base missing from a cache key",
        "posenc.encodings.rotary:Rotary.frequencies",
        "theta = geometric(self.base, self.turned, device)",
        "theta = CACHE.setdefault(self.turned, geometric(self.base, self.turned, device))",
        second_rope,
        "check_reference_scores",
    ),
    Fault(
        "the base of the latest instance",
        "posenc.encodings.rotary:Rotary.__init__",
        "self.base, self.rotary_dim, self.head_dim = base, rotary_dim, dim",
        "type(self).base = base; self.rotary_dim, self.head_dim = rotary_dim, dim",
        lambda: pe.Rotary(16, base=500.0),
        "check_instances_share_nothing",
    ),
    Fault(
        "a derived table kept as a buffer, cast by .bfloat16()",
        "posenc.encodings.rotary:Rotary.frequencies",
        "theta = geometric(self.base, self.turned, device)",
        'self.register_buffer("t", geometric(self.base, self.turned, device)); theta = self.t',
        rope,
        "check_state_dict",
    ),
    Fault(
        "wrong layout",
        "posenc.rotation:rotate_pairs",
        'layout == "half"',
        'layout != "half"',
        rope,
        "check_reference_scores",
    ),
    Fault(
        "sign of the key's angle flipped",
        "posenc.encodings.rotary:Rotary.lower",
        "Rotate(q_angle, k_angle,",
        "Rotate(q_angle, -k_angle,",
        rope,
        "check_translation_invariance",
    ),
    Fault(
        "sine of one side flipped, so that turning stretches",
        "posenc.rotation:rotate_pairs",
        "first * cos - second * sin",
        "first * cos + second * sin",
        rope,
        "check_norms",
    ),
    Fault(
        "partial rotary counts frequencies over the whole head",
        "posenc.encodings.rotary:Rotary.frequencies",
        "geometric(self.base, self.turned, device)",
        "geometric(self.base, self.dim, device)[: self.turned // 2]",
        lambda: pe.Rotary(16, rotary_dim=4),
        "check_reference_scores",
    ),
    Fault(
        "slopes of a power of two at 12 heads",
        "posenc.encodings.alibi:ALiBi.slope_values",
        'if self.slopes == "press"',
        "if False",
        lambda: pe.ALiBi(12),
        "check_reference_scores",
    ),
    Fault(
        "slope rewards distance",
        "posenc.equation:distance_bias",
        "slopes[0] * distance, -slopes",
        "-slopes[0] * distance, -slopes",
        alibi,
        "check_reference_scores",
    ),
    Fault(
        "bucket off by one",
        "posenc.encodings.t5:T5Bias.bucket",
        "exact + (ratio",
        "exact + 1 + (ratio",
        t5,
        "check_reference_scores",
    ),
    Fault(
        "past and future buckets exchanged",
        "posenc.encodings.t5:T5Bias.bucket",
        "distance > 0",
        "distance < 0",
        lambda: pe.T5Bias(4, buckets=12, max_distance=30, bidirectional=True),
        "check_reference_scores",
    ),
    Fault(
        "the gradient of a learned table lost",
        "posenc.encodings.t5:T5Bias.lower",
        "self.weight[",
        "self.weight.detach()[",
        t5,
        "check_gradients",
    ),
    Fault(
        "distance with the opposite sign",
        "posenc.positions.positions:Positions.distance",
        "return _pairs(k, q)",
        "return -_pairs(k, q)",
        shaw,
        "check_reference_scores",
    ),
    Fault(
        "clipped table one row off",
        "posenc.encodings.shaw:Shaw.lower",
        'zero=self.clip, side="q"',
        'zero=self.clip - 1, side="q"',
        shaw,
        "check_reference_scores",
    ),
    Fault(
        "content term after the scale",
        "posenc.equation:scores_of",
        "content = content + gathered(term, q, k, positions)",
        "outside = outside + gathered(term, q, k, positions)",
        shaw,
        "check_reference_scores",
    ),
    Fault(
        "value table forgotten",
        "posenc.equation:output_of",
        "isinstance(term, ValueTable)",
        "False",
        shaw,
        "check_reference_output",
    ),
    Fault(
        "mask dropped beside a bias",
        "posenc.backends.sdpa:attend",
        "mask = bias if seen is None else bias.masked_fill(~seen, -torch.inf)",
        "mask = bias",
        alibi,
        "check_backends",
    ),
    Fault(
        "bias dropped by a backend",
        "posenc.backends.sdpa:_bias",
        "parts.append(_by_distance(call, *biases(form, scale), dtype))",
        "pass",
        alibi,
        "check_backends",
    ),
    Fault(
        "causal mask aligned at the first key",
        "posenc.backends.sdpa:attend",
        " and square",
        "",
        rope,
        "check_short_queries",
    ),
    Fault(
        "fewer queries taken for the first keys",
        "posenc.positions.tokens:Tokens.last",
        "self[self.count - count :]",
        "self[:count]",
        rope,
        "check_short_queries",
    ),
    Fault(
        "offset ignored in decoding",
        "posenc.caches.cached_positions:continued",
        "last(keys.position) + step",
        "step - 1",
        rope,
        "check_decoding",
    ),
    Fault(
        "cached rotated keys turned again",
        "posenc.caches.cache:Cache._turn_new",
        "lowered = lowered.with_rotated_keys()",
        "pass",
        rope,
        "check_decoding",
    ),
    Fault(
        "new keys in front of the old ones",
        "posenc.caches.cache:Cache._joined",
        "joined(k, new_k, of_keys, self.length)",
        "joined(new_k, k, of_keys, self.length)",
        alibi,
        "check_decoding",
    ),
    Fault(
        "sinks by buffer index",
        "posenc.positions.positions:Positions.visible",
        "k_order = self.orders()[1]",
        "k_order = torch.arange(self.k_len)",
        rope,
        "check_masks",
    ),
    Fault(
        "window one too wide",
        "posenc.positions.positions:Positions.visible",
        "< min(windows)",
        "<= min(windows)",
        rope,
        "check_masks",
    ),
    Fault(
        "the widest of two windows",
        "posenc.positions.positions:Positions.visible",
        "< min(windows)",
        "< max(windows)",
        alibi,
        "check_masks",
    ),
    Fault(
        "causality by position value",
        "posenc.positions.positions:Positions.visible",
        "past = self.order_distance() <= 0",
        "past = self.distance() <= 0",
        rope,
        "check_reference_visible",
    ),
    Fault(
        "a window wider than its encoding says",
        "posenc.encodings.sliding_window:SlidingWindow.lower",
        "Window(self.width)",
        "Window(self.width + 1)",
        lambda: pe.SlidingWindow(3),
        "check_reference_visible",
    ),
    Fault(
        "a window of coordinates",
        "posenc.positions:Positions.visible",
        "step = self.order_distance()",
        "step = self.distance()",
        lambda: pe.SlidingWindow(3),
        "check_reference_visible",
    ),
    Fault(
        "the sinks of a Lambda-shaped mask forgotten",
        "posenc.encodings.lm_infinite:LMInfinite.lower",
        ", Mask(Sink(self.sinks))",
        "",
        lambda: pe.LMInfinite(16, window=4, sinks=2),
        "check_reference_visible",
    ),
    Fault(
        "one sink too few",
        "posenc.encodings.sinks:Sinks.lower",
        "Mask(Sink(self.count))",
        "Mask(Sink(self.count - 1))",
        lambda: pe.Sinks(2, window=2, rotary=pe.Rotary(16)),
        "check_reference_visible",
    ),
    Fault(
        "a prefix ignored",
        "posenc.positions:Positions.visible",
        "past | (k_order < max(prefixes)) if prefixes else past",
        "past",
        alibi,
        "check_masks",
    ),
    Fault(
        "padding seen",
        "posenc.positions.positions:Positions.visible",
        "if self.keys.valid is not None:",
        "if False:",
        rope,
        "check_backends",
    ),
    Fault(
        "left padding counted as tokens",
        "posenc.positions.from_mask:from_mask",
        "order = valid.long()",
        "order = (valid | True).long()",
        sinusoid,
        "check_padding",
    ),
    Fault(
        "other documents seen",
        "posenc.positions.positions:Positions.visible",
        "if self.queries.document is not None and self.keys.document is not None:",
        "if False:",
        rope,
        "check_backends",
    ),
    Fault(
        "positions run on through packed documents",
        "posenc.positions.from_documents:order_between",
        "stairs(cu[1:], -cu.diff(), count)",
        "torch.zeros(count, dtype=torch.int64)",
        sinusoid,
        "check_packed",
    ),
    Fault(
        "key heads tiled instead of interleaved",
        "posenc.equation:group",
        "k.repeat_interleave(heads // k.shape[1], dim=1)",
        "k.repeat(1, heads // k.shape[1], 1, 1)",
        rope,
        "check_grouped_heads",
    ),
    Fault(
        "NaN in a row that sees nothing",
        "posenc.equation:weights_of",
        "scores.masked_fill(empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0)",
        "scores.softmax(dim=-1)",
        cope,
        "check_finite",
    ),
    Fault(
        "scores under autocast",
        "posenc.autocast:autocast_off",
        'if device.type == "meta" else torch.autocast(device.type, enabled=False)',
        "",
        rope,
        "check_autocast",
    ),
    Fault(
        "scores in the dtype of the input",
        "posenc.equation:arithmetic",
        "return torch.float64 if torch.float64 in {t.dtype for t in tensors} else torch.float32",
        "return tensors[0].dtype",
        alibi,
        "check_low_precision",
    ),
    Fault(
        "positions normalised by the length",
        "posenc.encodings.sinusoidal:Sinusoidal.table",
        "positions.double()",
        "(positions.double() / (1 + positions.double().max()))",
        sinusoid,
        "check_prefix_consistency",
    ),
    Fault(
        "an input overwritten",
        "posenc.build_call:build_call",
        "check_shapes(q, k, v)",
        "check_shapes(q, k, v); v.mul_(2.0)",
        rope,
        "check_inputs_untouched",
    ),
    Fault(
        "a refusing backend replaced in silence",
        "posenc.attention:_chosen",
        "if reason is not None:",
        "if False:",
        shaw,
        "check_no_fallback",
    ),
    Fault(
        "heads broadcast in place of an error",
        "posenc.normal_form.normalise:check_heads",
        "form.made_for[1] != heads",
        "False",
        t5,
        "check_wrong_heads",
    ),
    Fault(
        "a branch on a tensor's value",
        "posenc.encodings.alibi:ALiBi.lower",
        "device = positions.device",
        "device = positions.device if positions.keys.position.sum() >= 0 else None",
        alibi,
        "check_compiles",
    ),
    Fault(
        "a length taken from the buffer",
        "posenc.encodings.rotary:Rotary.lower",
        "positions.lengths()",
        "[torch.full((1, 1), positions.k_len)] * 2",
        dynamic,
        "check_packed",
    ),
    Fault(
        "a length taken from batch mates",
        "posenc.encodings.rotary:Rotary.lower",
        "positions.lengths()",
        "[length.amax().view(1, 1) for length in positions.lengths()]",
        dynamic,
        "check_reference_scores",
    ),
    Fault(
        "the gain of half a head put on its whole score",
        "posenc.encodings.rotary:Rotary.lower",
        "return (Rotate(q_angle, k_angle, self.layout, gain=self._rule.gain),)",
        "from posenc.terms import Scale; "
        "return (Rotate(q_angle, k_angle, self.layout), Scale(self._rule.gain**2))",
        lambda: pe.Rotary(16, rotary_dim=8, scaling=pe.YaRN(4.0, 64, beta_fast=8.0)),
        "check_reference_scores",
    ),
    Fault(
        "YaRN's ramp truncated where it should not be",
        "posenc.encodings.scaling:YaRN._ends",
        "if self.truncate:",
        "if True:",
        lambda: pe.Rotary(16, scaling=pe.YaRN(4.0, 64, beta_fast=8.0, truncate=False)),
        "check_reference_scores",
    ),
    Fault(
        "a length stored as a number",
        "posenc.encodings._turning:angle",
        "at.view(-1, 1, at.shape[-1], 1)",
        "at.view(-1, 1, int(at.shape[-1]), 1)",
        rope,
        "check_exports",
    ),
    Fault(
        "x * p where x * (1 + p) is meant",
        "posenc.encodings._merge:merged",
        "x * (1 + p)",
        "x * p",
        lambda: pe.Ordinal("multiply"),
        "check_reference_embed",
    ),
    Fault(
        "tensor2tensor's denominators with one step too many",
        "posenc.encodings.sinusoidal:Sinusoidal.frequencies",
        "self.dim // 2 - 1",
        "self.dim // 2",
        lambda: pe.Sinusoidal(8, layout="half", denominator="tensor2tensor"),
        "check_reference_embed",
    ),
    Fault(
        "binary digits highest first",
        "posenc.encodings.binary:Binary.vectors",
        "// powers %",
        "// powers.flip(0) %",
        lambda: pe.Binary(8),
        "check_reference_embed",
    ),
    Fault(
        "the quarter turn between the two waves of a pair lost",
        "posenc.encodings.waveform:Waveform.vectors",
        "* 0.25",
        "* 0.0",
        lambda: pe.Waveform(8, "triangle"),
        "check_reference_embed",
    ),
    Fault(
        "frequencies of a wave kept in float32",
        "posenc.encodings.waveform:Waveform.vectors",
        "self.turns_per_token(at.device)",
        "self.turns_per_token(at.device).float()",
        lambda: pe.Waveform(16, "triangle"),
        "check_far_positions",
    ),
    Fault(
        "rows of a recurrence one position late",
        "posenc.encodings.recurrent:Recurrent.rows",
        "found = [p]",
        "found = [p, p]",
        lambda: pe.Recurrent(16, max_length=24),
        "check_reference_embed",
    ),
    Fault(
        "the gradient of a recurrence cut at every step",
        "posenc.encodings.recurrent:Recurrent.rows",
        "found.append(p)",
        "found.append(p); p = p.detach()",
        lambda: pe.Recurrent(16, max_length=24),
        "check_gradients",
    ),
    Fault(
        "a solver that forgets the time",
        "posenc.encodings._ode:rk4",
        "t = i * h",
        "t = 0.0",
        lambda: pe.FLOATER(16, max_length=24),
        "check_reference_embed",
    ),
    Fault(
        "the gate of the key is summed too",
        "posenc.encodings.forget_gate:ForgetGate.lower",
        "own), -total)",
        "own), log_f - total)",
        forget_gate,
        "check_reference_scores",
    ),
    Fault(
        "the gate of the query is left out",
        "posenc.encodings.forget_gate:ForgetGate.lower",
        "last = total[...",
        "last = (total - log_f)[...",
        forget_gate,
        "check_reference_scores",
    ),
    Fault(
        "gates summed in float32",
        "posenc.encodings.forget_gate:ForgetGate.lower",
        "log_f.double().cumsum",
        "log_f.cumsum",
        forget_gate,
        "check_long_inputs",
    ),
    Fault(
        "gates in the activation dtype",
        "posenc.encodings.forget_gate:ForgetGate.payload",
        "F.logsigmoid(logit)",
        "F.logsigmoid(logit.to(x.dtype))",
        forget_gate,
        "check_low_precision",
    ),
    Fault(
        "gates under autocast",
        "posenc.encodings.forget_gate:ForgetGate.payload",
        "with autocast_off(x.device):",
        "if True:",
        forget_gate,
        "check_autocast",
    ),
    Fault(
        "gates of the new tokens alone",
        "posenc.caches.cache:Cache.payload_with",
        "torch.cat((self.payload, new), dim=-1)",
        "torch.cat((torch.zeros_like(self.payload), new), dim=-1)",
        forget_gate,
        "check_decoding",
    ),
    Fault(
        "a context of another batch widens the output",
        "posenc.build_call:_with_payload",
        "given.shape[0] not in (1, batch)",
        "False",
        forget_gate,
        "check_wrong_context",
    ),
    Fault(
        "CoPE counts keys that are hidden",
        "posenc.equation:counted",
        "s if visible is None else s.masked_fill(~visible, -torch.inf)",
        "s",
        cope,
        "check_reference_scores",
    ),
    Fault(
        "CoPE's gates without the scale",
        "posenc.equation:scores_of",
        "counted(term, q, s, visible)",
        "counted(term, q, content, visible)",
        cope,
        "check_reference_scores",
    ),
    Fault(
        "CoPE's gates with biases",
        "posenc.equation:scores_of",
        "counted(term, q, s, visible)",
        "counted(term, q, s + outside, visible)",
        lambda: SlopedCoPE(16, max_position=5),
        "check_reference_scores",
    ),
    Fault(
        "slopes of the two sides exchanged",
        "posenc.encodings.alibi:ALiBi.lower",
        "Slope(past, future,",
        "Slope(past if future is None else future, past,",
        lambda: pe.ALiBi(4, future=0.5),
        "check_reference_scores",
    ),
    Fault(
        "distances along the axes added up",
        "posenc.encodings.alibi:ALiBi.lower",
        "steps.norm(dim=-1)",
        "steps.abs().sum(dim=-1)",
        lambda: pe.ALiBi(4, axes=2),
        "check_reference_scores",
    ),
    Fault(
        "a kernel clamped at too small an extent",
        "posenc.encodings.kerple:KERPLE.lower",
        "DistanceTable(values.to(wide), zero=bound - 1)",
        "DistanceTable(values[:, 3:-3].to(wide), zero=bound - 4, saturates=True)",
        lambda: pe.KERPLE(4),
        "check_reference_scores",
    ),
    Fault(
        "the bias multiplied by its compression ratio",
        "posenc.encodings.sandwich:Sandwich.lower",
        "product / ratio",
        "product * ratio",
        lambda: pe.Sandwich(4),
        "check_reference_scores",
    ),
    Fault(
        "distances normalised by the row of the query",
        "posenc.encodings.fire:FIRE.lower",
        "i.maximum(threshold)",
        "(i - i[:, :1]).maximum(threshold)",
        lambda: pe.FIRE(4, width=8, initial_threshold=2.0),
        "check_short_queries",
    ),
    Fault(
        "distances normalised by the number of keys",
        "posenc.encodings.fire:FIRE.lower",
        "i.maximum(threshold)",
        "torch.full_like(i, j.shape[-1]).maximum(threshold)",
        lambda: pe.FIRE(4, width=8, initial_threshold=2.0),
        "check_padding",
    ),
    Fault(
        "tokens dropped before a sink counted over the buffer, not the document",
        "posenc.encodings.sinks:Sinks.lower",
        "order = positions.orders()[0]",
        "order = torch.arange(positions.k_len)[positions.k_len - positions.q_len :]",
        lambda: pe.Sinks(1, window=3, rotary=pe.Rotary(16)),
        "check_packed",
    ),
    Fault(
        "sinks as far away as they are",
        "posenc.encodings.sinks:Sinks.lower",
        '"Sinks") - dropped',
        '"Sinks") + 0 * dropped',
        lambda: pe.Sinks(1, window=3, rotary=pe.Rotary(16)),
        "check_reference_scores",
    ),
    Fault(
        "the query of the far zone not clipped",
        "posenc.encodings.rerope:ReRoPE.lower",
        "q.double() / leak + (self.window - self.window / leak)",
        "q.double()",
        lambda: pe.ReRoPE(16, window=3),
        "check_reference_scores",
    ),
    Fault(
        "groups shifted by the window alone",
        "posenc.encodings.self_extend:SelfExtend.lower",
        "self.window - self.window // self.group",
        "self.window",
        lambda: pe.SelfExtend(16, window=3, group=2),
        "check_reference_scores",
    ),
    Fault(
        "scores cooled before the training length",
        "posenc.encodings.temperature:Temperature.lower",
        "KINDS[self.kind](positions.queries.position.double(), **self._own())",
        "(positions.queries.position.double() + 1).log() / math.log(self.original_length)",
        lambda: pe.Temperature("log_n", original_length=4),
        "check_reference_scores",
    ),
    Fault(
        "xPos with a centre for each of q and k",
        "posenc.encodings.xpos:XPos.lower",
        "q_log_scale=q_log, k_log_scale=-k_log",
        "q_log_scale=q_log - q_log.mean(-2, True), k_log_scale=k_log.mean(-2, True) - k_log",
        lambda: pe.XPos(16, scale_base=8.0),
        "check_short_queries",
    ),
    Fault(
        "interleaved sections laid one after another",
        "posenc.encodings.mrope:MRoPE._axis_of_pair",
        "if not self.interleaved",
        "if True",
        lambda: pe.MRoPE(20, (4, 3, 3), interleaved=True),
        "check_reference_scores",
    ),
    Fault(
        "axes swapped",
        "posenc.encodings.axial:AxialRotary._angle",
        "for axis in range(self.axes)",
        "for axis in reversed(range(self.axes))",
        lambda: pe.AxialRotary(16, grid=(3, 4)),
        "check_reference_scores",
    ),
    Fault(
        "one head's frequencies for every head",
        "posenc.encodings.learned_rotary:LearnedRotary._angle",
        "frequency[:, None]",
        "frequency[:1, None]",
        lambda: pe.LearnedRotary(16, heads=4),
        "check_reference_scores",
    ),
    Fault(
        "DeBERTa's table ends at span - 1",
        "posenc.encodings.deberta:DeBERTa.lower",
        "device, far = self.weight.device, self.span",
        "device, far = self.weight.device, self.span - 1",
        lambda: pe.DeBERTa(32, 4, span=4),
        "check_reference_scores",
    ),
    Fault(
        "the sign of the paper's p2c",
        "posenc.encodings.deberta:DeBERTa.lower",
        "row_of=row_of,",
        'row_of=row_of if side == "q" else row_of.flip(0),',
        lambda: pe.DeBERTa(32, 4, span=4),
        "check_reference_scores",
    ),
    Fault(
        "query and key projections of the layer exchanged",
        "posenc.encodings.deberta:DeBERTa._projected",
        'if term == "p2c"',
        'if term == "c2p"',
        lambda: pe.DeBERTa(32, 4, span=4),
        "check_reference_scores",
    ),
    Fault(
        "log buckets rounded down",
        "posenc.encodings.deberta:DeBERTa.bucket",
        "far.ceil()",
        "far.floor()",
        lambda: pe.DeBERTa(24, 3, span=12, buckets=6),
        "check_reference_scores",
    ),
    Fault(
        "rows of Transformer-XL reversed",
        "posenc.encodings.transformer_xl:TransformerXL.lower",
        "torch.arange(far, -far - 1, -1,",
        "torch.arange(-far, far + 1,",
        lambda: pe.TransformerXL(16, 4),
        "check_reference_scores",
    ),
    Fault(
        "u and v swapped",
        "posenc.encodings.transformer_xl:TransformerXL.lower",
        "bias=self.position_bias, saturates=clamped),\n        GatherTable(self.content_bias",
        "bias=self.content_bias, saturates=clamped),\n        GatherTable(self.position_bias",
        lambda: pe.TransformerXL(16, 4),
        "check_reference_scores",
    ),
    Fault(
        "a table projected under autocast",
        "posenc.encodings.transformer_xl:TransformerXL.lower",
        "with autocast_off(device):",
        "if True:",
        lambda: pe.TransformerXL(16, 4),
        "check_autocast",
    ),
    Fault(
        "the key's table read with key heads tiled",
        "posenc.equation:gathered",
        "group(k, heads)",
        "k.repeat(1, heads // k.shape[1], 1, 1)",
        lambda: pe.DeBERTa(32, 4, span=4),
        "check_grouped_heads",
    ),
    Fault(
        "the key's table reads queries from the first key on",
        "posenc.equation:gathered",
        "rows = rows_of(term, positions)",
        "late = (k.shape[2] - q.shape[2]) if term.side == 'k' else 0\n    "
        "moved = type(term)(term.weight, term.zero + late, 'k', None, term.row_of, True)\n    "
        "rows = rows_of(moved, positions)",
        lambda: pe.DeBERTa(32, 4, span=4),
        "check_short_queries",
    ),
    Fault(
        "a rolling cache evicts a token too early",
        "posenc.caches.rolling:RollingCache._needed",
        "recent, count = max(self.window - 1, 1)",
        "recent, count = max(self.window - 2, 1)",
        rope,
        "check_rolling_cache",
    ),
    Fault(
        "a rolling cache keeps one sink too few",
        "posenc.caches.rolling:RollingCache._needed",
        "order < self.sinks",
        "order < self.sinks - 1",
        alibi,
        "check_rolling_cache",
    ),
    Fault(
        "sinks renumbered as if they stood before the window",
        "posenc.caches.cached_positions:selected",
        "keys=positions.keys[columns]",
        "keys=replace(positions.keys[columns], order=positions.keys.order[..., -len(columns) :])",
        rope,
        "check_rolling_cache",
    ),
    Fault(
        "held tokens renumbered where none were evicted from their numbers",
        "posenc.caches.cached_positions:selected",
        "keys=positions.keys[columns]",
        "keys=replace(positions.keys[columns], position=torch.arange(len(columns)))",
        alibi,
        "check_rolling_cache",
    ),
    Fault(
        "payloads of evicted tokens dropped",
        "posenc.caches.rolling:RollingCache.append",
        "_folded(payload, keep)",
        "payload.index_select(-1, keep)",
        forget_gate,
        "check_rolling_cache",
    ),
    Fault(
        "slots written one too early",
        "posenc.caches.static:StaticCache._slots",
        "return self._position() +",
        "return self._position() - 1 +",
        alibi,
        "check_static_cache",
    ),
    Fault(
        "slots to come are seen",
        "posenc.caches.static:StaticCache.place",
        "< self._position() + new",
        "< self.capacity",
        rope,
        "check_static_cache",
    ),
    Fault(
        "payloads after the first call dropped",
        "posenc.caches.static:StaticCache.append",
        "self.payload.copy_(payload)",
        "pass",
        forget_gate,
        "check_static_cache",
    ),
    Fault(
        "one token too many after some were taken back",
        "posenc.caches.static:StaticCache.truncate",
        "self.position.fill_(length)",
        "self.position.fill_(length + 1)",
        rope,
        "check_taken_back",
    ),
    Fault(
        "payloads of another row after a beam was chosen",
        "posenc.caches.cache:Cache.reorder",
        "self.payload.index_select(0, rows)",
        "self.payload",
        forget_gate,
        "check_taken_back",
    ),
    Fault(
        "positions of another row after a beam was chosen",
        "posenc.caches.cache:Cache.reorder",
        "reordered(self.placed, rows)",
        "self.placed",
        rope,
        "check_taken_back",
    ),
    Fault(
        "keys turned again by the opposite angle",
        "posenc.caches.rerotation:rerotate",
        "after.k_angle - before.k_angle",
        "before.k_angle - after.k_angle",
        rope,
        "check_rerotate",
    ),
    Fault(
        "a gain multiplied twice when keys are turned again",
        "posenc.caches.rerotation:rerotate",
        "after.gain / before.gain",
        "after.gain",
        lambda: pe.Rotary(16, scaling=pe.YaRN(4.0, 64)),
        "check_rerotate",
    ),
    Fault(
        "distances of the C kernel one too far",
        "posenc.backends.native:_inputs",
        "else table.zero",
        "else table.zero + 1",
        t5,
        "check_backends",
    ),
    Fault(
        "the window forgotten by the C kernel",
        "posenc.backends.native:_inputs",
        "window=-1 if seen.window is None else seen.window",
        "window=-1",
        lambda: pe.SlidingWindow(3),
        "check_backends",
    ),
    Fault(
        "distances of a chunk one too far",
        "posenc.backends.blocked.operands:Operands._part",
        "positions.k_len - 1",
        "positions.k_len",
        t5,
        "check_backends",
    ),
    Fault(
        "vectors by distance read along the wrong diagonals",
        "posenc.normal_form.pairs:vectors_along_diagonals",
        "n - 1, 1)",
        "n, 1)",
        lambda: pe.Shaw(8, clip=4),
        "check_backends",
    ),
]


def plant(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the function wherever posenc holds it, until the test ends."""
    module_name, _, path = fault.target.partition(":")
    owner: object = importlib.import_module(module_name)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    original = inspect.getattr_static(owner, name)
    function = inspect.unwrap(getattr(original, "__func__", original))
    source = textwrap.dedent(inspect.getsource(function))
    old, new = textwrap.dedent(fault.old), fault.new
    assert source.count(old) >= 1, f"{fault.name}: {old!r} is not in {fault.target}"
    namespace: dict[str, object] = {}
    # Text that is compiled by itself knows no class that its super() could mean.
    changed = source.replace(old, new).replace("super()", "super(OWNER, self)")
    exec(changed, function.__globals__ | {"CACHE": {}, "OWNER": owner}, namespace)
    changed = namespace[name]
    monkeypatch.setattr(owner, name, changed)
    for module in [m for key, m in sys.modules.items() if key.startswith("posenc")]:
        for attribute, value in list(vars(module).items()):
            if value is original and module is not owner:
                monkeypatch.setattr(module, attribute, changed)
