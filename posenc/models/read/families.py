"""Every model type that posenc reads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from posenc.models.keys import Keys
from posenc.models.read.audio import (
    read_conformer,
    read_moonshine,
    read_wav2vec2,
    read_wav2vec2_bert,
)
from posenc.models.read.compressed import read_compressed
from posenc.models.read.decoder import Decoder, read_decoder
from posenc.models.read.decoders import DECODERS
from posenc.models.read.gemma import GEMMA
from posenc.models.read.hybrids import HYBRIDS
from posenc.models.read.latent import LATENT
from posenc.models.read.learned import (
    absolute,
    decodes,
    read_bart,
    read_bert,
    read_bigcode,
    read_gpt2,
    read_gpt_neo,
    read_mobilebert,
    read_mpnet,
    read_numbered,
    read_patches,
    read_vit,
    read_whisper,
)
from posenc.models.read.looped import DORY, read_dory
from posenc.models.read.relative import (
    read_bloom,
    read_deberta,
    read_falcon,
    read_mpt,
    read_t5,
    read_xlnet,
)
from posenc.models.read.tables import read_beit, read_swin, read_swinv2
from posenc.models.read.vendors import VENDORS, read_baichuan, read_chatglm, read_gte
from posenc.models.read.vision import TOWERS, Tower, read_tower
from posenc.models.spec import PartSpec

Parts = Mapping[str, PartSpec]


@dataclass(frozen=True)
class Family:
    """How a model type is read, and what its code takes where its file is silent."""

    read: Callable[[Keys], Parts]
    silent: Mapping[str, Any] = field(default_factory=dict)


def _decoder(rules: Decoder) -> Family:
    part = "text" if rules.causal else "encoder"
    return Family(lambda keys: {part: read_decoder(keys, rules)}, rules.silent)


def _tower(rules: Tower) -> Family:
    return Family(lambda keys: read_tower(keys, rules), rules.silent)


def _nested(text: str, **others: str) -> Family:
    """A model of several parts, each with a configuration of its own.

    text is the model type of the part that writes, where that does not say it; others are those
    of other parts, by the key that each is under. A part of a type that no rule reads is named
    among what is unread. In some files the text's keys stand beside those of the other parts.
    """

    def read(keys: Keys) -> Parts:
        parts: dict[str, PartSpec] = {}
        for name, silent in {"text_config": text, **others}.items():
            inner = keys.inside(name)
            if inner is None and name != "text_config":
                continue
            inner = inner or keys
            kind = silent if inner is keys else inner.word("model_type").value or silent
            # In some files every part has the model type of the whole.
            kind = silent if kind == keys.owner else kind
            family = FAMILIES.get(kind)
            if family is None:
                keys.leave(name, f"model_type {kind!r}")
                continue
            inner.owner, inner.silent = kind, family.silent
            for part, spec in family.read(inner).items():
                parts[part if part not in parts else name.removesuffix("_config")] = spec
        return parts

    return Family(read)


_DECODERS = {**DECODERS, **GEMMA, **LATENT, **HYBRIDS, **VENDORS}
_T5 = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
_FALCON = {"rope_theta": 10_000.0, "max_position_embeddings": 2048, "multi_query": True}
_BERT = {"max_position_embeddings": 512}
_VIT_BASE = {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12}
_SWIN = {
    "image_size": 224,
    "patch_size": 4,
    "embed_dim": 96,
    "depths": (2, 2, 6, 2),
    "num_heads": (3, 6, 12, 24),
    "window_size": 7,
}
_DEBERTA = {**_BERT, "position_biased_input": True}

FAMILIES: Mapping[str, Family] = {
    **{name: _decoder(rules) for name, rules in _DECODERS.items()},
    **{name: _tower(rules) for name, rules in TOWERS.items()},
    **{
        f"{name}_vision": _tower(TOWERS["qwen3_vl_vision"])
        for name in ("qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
    },
    "qwen3_vl_moe_text": _decoder(DECODERS["qwen3_vl_text"]),
    "qwen3_5_moe_text": _decoder(HYBRIDS["qwen3_5_text"]),
    "qwen2_5_vl_text": _decoder(DECODERS["qwen2_vl_text"]),
    # Kimi's file of DeepSeek's code.
    "kimi_k2": _decoder(LATENT["deepseek_v3"]),
    "llama4": _nested("llama4_text", vision_config="llama4_vision_model"),
    "gemma3": _nested("gemma3_text", vision_config="siglip_vision_model"),
    "gemma3n": _nested(
        "gemma3n_text", vision_config="gemma3n_vision", audio_config="gemma3n_audio"
    ),
    "mistral3": _nested("mistral", vision_config="pixtral"),
    "qwen2_vl": _nested("qwen2_vl_text", vision_config="qwen2_vl_vision"),
    "qwen2_5_vl": _nested("qwen2_vl_text", vision_config="qwen2_5_vl_vision"),
    "qwen3_vl": _nested("qwen3_vl_text", vision_config="qwen3_vl_vision"),
    "gemma4": _nested("gemma4_text", vision_config="gemma4_vision", audio_config="gemma4_audio"),
    "qwen3_vl_moe": _nested("qwen3_vl_text", vision_config="qwen3_vl_vision"),
    "qwen3_5_moe": _nested("qwen3_5_text", vision_config="qwen3_vl_vision"),
    "qwen3_5": _nested("qwen3_5_text", vision_config="qwen3_vl_vision"),
    "lfm2_vl": _nested("lfm2", vision_config="siglip2_vision_model"),
    "exaone4_5": _nested("exaone4", vision_config="exaone4_5_vision"),
    "exaone4_5_text": _decoder(DECODERS["exaone4"]),
    "ernie4_5_vl_moe": _nested("ernie4_5_vl_moe_text", vision_config="ernie4_5_vl_moe_vision"),
    # The vendor's own name for it.
    "ernie4_5_moe_vl": _nested("ernie4_5_vl_moe_text", vision_config="ernie4_5_vl_moe_vision"),
    "hunyuan_vl": _nested("hunyuan_vl_text", vision_config="hunyuan_vl_vision"),
    "glm4v": _nested("glm4v_text", vision_config="glm4v_vision"),
    "hy_v4_vl": _nested("hy_v4_vl_text", vision_config="hy_v4_vl_vision"),
    "apertus1p5": _nested(
        "apertus1p5_text",
        vision_config="apertus1p5_vision_tokenizer",
        audio_config="wavtokenizer_encoder",
    ),
    "dory": Family(read_dory, DORY.silent),
    "deepseek_v4": Family(
        read_compressed,
        {
            "rope_theta": 10_000.0,
            "compress_rope_theta": 160_000.0,
            "qk_rope_head_dim": 64,
            "sliding_window": 128,
        },
    ),
    "bloom": Family(read_bloom),
    "mpt": Family(read_mpt, {"max_seq_len": 2048}),
    "falcon": Family(read_falcon, _FALCON),
    # Falcon's names before it came into transformers: 7B and 1B, and 40B.
    "RefinedWebModel": Family(read_falcon, _FALCON),
    "RefinedWeb": Family(read_falcon, {**_FALCON, "new_decoder_architecture": True}),
    "baichuan": Family(read_baichuan, {"rope_theta": 10_000.0}),
    "chatglm": Family(
        read_chatglm,
        {
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 0.5,
            "kv_channels": 128,
            "multi_query_group_num": 1,
        },
    ),
    "new": Family(read_gte, {"rope_theta": 10_000.0, "position_embedding_type": "rope"}),
    "t5": Family(read_t5, _T5),
    "mt5": Family(read_t5, _T5),
    "umt5": Family(read_t5, _T5),
    "deberta": Family(read_deberta, _DEBERTA),
    "deberta-v2": Family(read_deberta, _DEBERTA),
    "xlnet": Family(read_xlnet, {"attn_type": "bi"}),
    "wav2vec2-bert": Family(
        read_wav2vec2_bert,
        {
            "position_embeddings_type": "relative_key",
            "left_max_position_embeddings": 64,
            "right_max_position_embeddings": 8,
            "rotary_embedding_base": 10_000,
        },
    ),
    "wav2vec2": Family(
        read_wav2vec2, {"num_conv_pos_embeddings": 128, "num_conv_pos_embedding_groups": 16}
    ),
    "wav2vec2-conformer": Family(
        read_conformer,
        {
            "position_embeddings_type": "relative",
            "rotary_embedding_base": 10_000,
            "max_source_positions": 5000,
        },
    ),
    "moonshine": Family(
        read_moonshine,
        {
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 0.9,
            "hidden_size": 288,
            "max_position_embeddings": 512,
            **{f"{side}_num_attention_heads": 8 for side in ("encoder", "decoder")},
            **{f"{side}_num_hidden_layers": 6 for side in ("encoder", "decoder")},
        },
    ),
    "gpt2": Family(read_gpt2, {"n_positions": 1024, "scale_attn_weights": True}),
    "gpt_bigcode": Family(
        read_bigcode, {"n_positions": 1024, "multi_query": True, "scale_attn_weights": True}
    ),
    "gpt_neo": Family(read_gpt_neo, {"window_size": 256, "max_position_embeddings": 2048}),
    "opt": Family(
        absolute(causal=True, rows_before=2, first_position=2),
        {"max_position_embeddings": 2048},
    ),
    "bert": Family(read_bert, _BERT),
    "distilbert": Family(absolute(causal=False), _BERT),
    "electra": Family(absolute(causal=decodes, width=("embedding_size",)), _BERT),
    "mobilebert": Family(read_mobilebert, {**_BERT, "true_hidden_size": 128}),
    "roberta": Family(absolute(causal=decodes, first_position=2), _BERT),
    "xlm-roberta": Family(absolute(causal=decodes, first_position=2), _BERT),
    "mpnet": Family(read_mpnet, {**_BERT, "relative_attention_num_buckets": 32}),
    "vit": Family(read_vit, {"image_size": 224, "patch_size": 16}),
    "siglip_vision_model": Family(read_patches, {**_VIT_BASE, "image_size": 224, "patch_size": 16}),
    "siglip_text_model": Family(
        absolute(causal=False), {**_VIT_BASE, "max_position_embeddings": 64}
    ),
    "siglip2_vision_model": Family(read_numbered, {**_VIT_BASE, "num_patches": 256}),
    "siglip2_text_model": Family(
        absolute(causal=False), {**_VIT_BASE, "max_position_embeddings": 64}
    ),
    "clip_vision_model": Family(read_vit, {**_VIT_BASE, "image_size": 224, "patch_size": 32}),
    "clip_text_model": Family(
        absolute(causal=True),
        {
            "hidden_size": 512,
            "num_attention_heads": 8,
            "num_hidden_layers": 12,
            "max_position_embeddings": 77,
        },
    ),
    "clip": _nested("clip_text_model", vision_config="clip_vision_model"),
    "siglip": _nested("siglip_text_model", vision_config="siglip_vision_model"),
    "siglip2": _nested("siglip2_text_model", vision_config="siglip2_vision_model"),
    "dinov2": Family(read_vit, {"image_size": 224, "patch_size": 14}),
    "dinov2_with_registers": Family(read_vit, {"image_size": 224, "patch_size": 16}),
    "beit": Family(read_beit, {"image_size": 224, "patch_size": 16}),
    "swin": Family(read_swin, _SWIN),
    "swinv2": Family(read_swinv2, _SWIN),
    "whisper": Family(read_whisper, {"max_source_positions": 1500, "max_target_positions": 448}),
    "bart": Family(read_bart, {"max_position_embeddings": 1024}),
}
