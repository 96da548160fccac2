"""Models that run by code of their vendors, kept with their weights."""

import math
from collections.abc import Mapping
from dataclasses import replace

from posenc.models.keys import Keys, Sourced
from posenc.models.read.decoder import (
    LENGTHS,
    Decoder,
    Sources,
    read_decoder,
    several_key_heads,
    with_base,
)
from posenc.models.read.rope import Rope, Settings
from posenc.models.read.stack import HEADS, plain_layer, stack
from posenc.models.spec import EncodingSpec, Layout, PartSpec, ScalingSpec


def read_baichuan(keys: Keys) -> Mapping[str, PartSpec]:
    """The 7B models turn, and those of other widths have ALiBi; no key says so.

    vLLM and llama.cpp tell them apart as well by the width, 4096.
    """
    if keys.whole("hidden_size").value == 4096:
        return {"text": read_decoder(keys, Decoder(with_base(10_000.0)))}
    spec = EncodingSpec("alibi", {"heads": keys.whole(*HEADS).value})
    layer = plain_layer(keys, spec, causal=True)
    return {"text": stack(keys, layer, trained=keys.maybe_whole(*LENGTHS))}


def _chatglm_key_heads(keys: Keys, heads: int, kind: str) -> Sourced[int]:
    if keys.flag("multi_query_attention").value:
        return keys.whole("multi_query_group_num")
    return Sourced(heads, "num_attention_heads")


def _chatglm_base(keys: Keys, spec: EncodingSpec) -> tuple[EncodingSpec, Sources]:
    """rope_ratio multiplies the base, as in ChatGLM3 and GLM-4.

    ChatGLM2-6B-32k's own code divides positions by it, and no key tells which of them it is.
    """
    base = spec.settings["base"]
    ratio, key = keys.maybe_number("rope_ratio", least=1 / base)
    if ratio is None:
        return spec, {}
    settings = {**spec.settings, "base": base * ratio}
    return replace(spec, settings=settings), {"base": f"{key} * 10000"}


def read_chatglm(keys: Keys) -> Mapping[str, PartSpec]:
    """ChatGLM from the second on, and the first files of GLM-4."""
    if keys.flag("position_encoding_2d").value:
        raise keys.wrong("position_encoding_2d", True, "ChatGLM2 or newer")
    # The code has pairs side by side in either case.
    keys.flag("original_rope")
    family = Decoder(
        layout="interleaved", key_heads=_chatglm_key_heads, revised=_chatglm_base, lengths=LENGTHS
    )
    return {"text": read_decoder(keys, family)}


def _qwen_stretch(keys: Keys, spec: EncodingSpec) -> tuple[EncodingSpec, Sources]:
    """Qwen's own growth of the base: 2**ceil(log2(length / seq_length) + 1) - 1."""
    asked, key = keys.flag("use_dynamic_ntk")
    if not asked:
        return spec, {}
    scaling = ScalingSpec("QwenNTK", {"original_length": keys.whole("seq_length").value})
    return replace(spec, settings={**spec.settings, "scaling": scaling}), {"scaling": key}


def _log_n(keys: Keys, turns: bool) -> EncodingSpec | None:
    if not keys.flag("use_logn_attn").value:
        return None
    length = keys.whole("seq_length", least=2).value
    return EncodingSpec("temperature", {"kind": "log_n", "original_length": length})


def _nomic_layout(keys: Keys) -> Layout:
    return "interleaved" if keys.flag("rotary_emb_interleaved").value else "half"


def _nomic_stretch(keys: Keys, spec: EncodingSpec) -> tuple[EncodingSpec, Sources]:
    factor, key = keys.maybe_number("rotary_scaling_factor", least=1.0)
    if factor is None:
        return spec, {}
    original = keys.whole("max_trained_positions", "n_positions")
    settings = {"factor": factor, "original_length": original.value}
    scaling = ScalingSpec("DynamicNTK", settings)
    return replace(spec, settings={**spec.settings, "scaling": scaling}), {"scaling": key}


def _su_ntk(at: Rope) -> Settings:
    """GTE's "ntk", after Su (kexue.fm/archives/9706): theta[i] * factor**(-2(i+1)/d).

    It is not the one of that name elsewhere: the fastest pair is slowed as well.
    """
    factor = at.factor()
    return "SuNTK", {"factor": factor}


def _as_base_and_factor(keys: Keys, spec: EncodingSpec) -> tuple[EncodingSpec, Sources]:
    """Su's NTK as a larger base and one factor for all pairs, which is the same."""
    scaling = spec.settings.get("scaling")
    if scaling is None or scaling.name != "SuNTK":
        return spec, {}
    factor, dim = scaling.settings["factor"], spec.settings["dim"]
    linear = ScalingSpec("Linear", {"factor": math.pow(factor, 2 / dim)})
    settings = {**spec.settings, "base": spec.settings["base"] * factor, "scaling": linear}
    return replace(spec, settings=settings), {"base": "rope_theta * rope_scaling.factor"}


def read_gte(keys: Keys) -> Mapping[str, PartSpec]:
    """GTE's encoders, whose model type is "new"."""
    kind, key = keys.word("position_embedding_type")
    if kind != "rope":
        raise keys.wrong(key, kind, "'rope'")
    family = Decoder(
        key_heads=several_key_heads,
        scalings={"ntk": _su_ntk},
        revised=_as_base_and_factor,
        causal=False,
    )
    return {"encoder": read_decoder(keys, family)}


VENDORS: Mapping[str, Decoder] = {
    "qwen": Decoder(
        {"rotary_emb_base": 10_000.0, "rotary_pct": 1.0},
        revised=_qwen_stretch,
        temper=_log_n,
        # What this code calls seq_length is what the model was trained on.
        lengths=("seq_length",),
        ignored=("max_position_embeddings",),
    ),
    # As its own code; transformers, from 5.24 on, takes 500,000 where a file is silent.
    "exaone": Decoder(with_base(10_000.0)),
    "nomic_bert": Decoder(
        {"rotary_emb_base": 10_000.0},
        layout=_nomic_layout,
        revised=_nomic_stretch,
        lengths=("max_trained_positions", "n_positions", "max_position_embeddings"),
        ignored=("rotary_emb_base", "rotary_emb_scale_base"),
        causal=False,
    ),
}
