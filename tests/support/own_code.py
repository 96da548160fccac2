"""Small random models whose attention is code of their own, and texts for them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import posenc as pe

VOCABULARY = 97
# Relative to the largest number: both round every layer's numbers to float32.
TOLERANCE = 1e-5
_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_DECODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "initializer_range": 0.3,
    **_SPECIAL,
}
_T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 3,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.0,
    "pad_token_id": 0,
    "eos_token_id": 2,
}
_DEBERTA = {
    **_DECODER,
    "intermediate_size": 48,
    "relative_attention": True,
    "max_position_embeddings": 64,
    "position_biased_input": False,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
_BUCKETS = {
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "conv_kernel_size": 3,
}
_XLNET = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "n_layer": 3,
    "n_head": 4,
    "d_inner": 48,
    "initializer_range": 0.3,
    "dropout": 0.0,
}


@dataclass(frozen=True)
class OwnCode:
    """A class of transformers, and settings of its configuration."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def encodes(self) -> bool:
        """Whether it reads a text and writes another one."""
        return "T5" in self.kind

    def config(self, **settings: Any) -> Any:
        import transformers

        kind = getattr(transformers, self.kind).config_class
        return kind(**{**self.settings, **settings})

    def build(self, attention: str | None = None, **settings: Any) -> Any:
        """The model, in evaluation; the same weights each time."""
        import transformers

        torch.manual_seed(0)
        told = {} if attention is None else {"attn_implementation": attention}
        model = getattr(transformers, self.kind)._from_config(self.config(**settings), **told)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                # What a model starts at one value, or near zero, would tell nothing.
                if parameter.ndim == 1 or "bias" in name:
                    parameter += 0.3 * torch.randn(parameter.shape)
        return model.eval()

    def pair(self, **settings: Any) -> tuple[Any, Any]:
        """The model twice, the second with posenc under it."""
        theirs, ours = self.build(**settings), self.build(**settings)
        pe.attach(ours)
        return theirs, ours


MODELS = {
    "t5": OwnCode("T5ForConditionalGeneration", _T5),
    "mt5": OwnCode("MT5ForConditionalGeneration", _T5),
    "umt5": OwnCode("UMT5ForConditionalGeneration", _T5),
    "falcon, one key head": OwnCode("FalconForCausalLM", _DECODER),
    "falcon, as many key heads": OwnCode(
        "FalconForCausalLM",
        {**_DECODER, "multi_query": False, "parallel_attn": False, "bias": True},
    ),
    "falcon, two key heads": OwnCode(
        "FalconForCausalLM", {**_DECODER, "new_decoder_architecture": True, "num_kv_heads": 2}
    ),
    "falcon, alibi": OwnCode(
        "FalconForCausalLM", {**_DECODER, "alibi": True, "multi_query": False, "bias": True}
    ),
    "bloom": OwnCode("BloomForCausalLM", _DECODER),
    "bloom, six heads": OwnCode(
        "BloomForCausalLM", {**_DECODER, "hidden_size": 48, "num_attention_heads": 6}
    ),
    "mpt": OwnCode(
        "MptForCausalLM",
        {
            "vocab_size": VOCABULARY,
            "d_model": 48,
            "n_heads": 6,
            "n_layers": 3,
            "max_seq_len": 64,
            "initializer_range": 0.3,
            **_SPECIAL,
        },
    ),
    "deberta-v2, shared": OwnCode(
        "DebertaV2ForMaskedLM",
        {**_DEBERTA, **_BUCKETS, "share_att_key": True, "pos_att_type": ["c2p", "p2c"]},
    ),
    "deberta-v2, own": OwnCode(
        "DebertaV2ForMaskedLM",
        {**_DEBERTA, **_BUCKETS, "share_att_key": False, "pos_att_type": ["c2p", "p2c"]},
    ),
    "deberta-v2, c2p": OwnCode(
        "DebertaV2ForMaskedLM", {**_DEBERTA, "share_att_key": False, "pos_att_type": ["c2p"]}
    ),
    "deberta-v2, p2c": OwnCode(
        "DebertaV2ForMaskedLM",
        {**_DEBERTA, "share_att_key": True, "pos_att_type": "p2c", "max_relative_positions": 9},
    ),
    "xlnet": OwnCode("XLNetModel", _XLNET),
    "xlnet, causal": OwnCode("XLNetModel", {**_XLNET, "attn_type": "uni"}),
    "xlnet, clamped": OwnCode("XLNetModel", {**_XLNET, "clamp_len": 5}),
}
WRITERS = [
    name for name, made in MODELS.items() if made.encodes or made.kind.endswith("ForCausalLM")
]


def text(rows: int = 3, length: int = 15, seed: int = 1) -> Tensor:
    """Random tokens (rows, length), none of them special."""
    drawn = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCABULARY, (rows, length), generator=drawn)


def right_padding(lengths: list[int], length: int = 15) -> Tensor:
    """A mask (rows, length) of texts that end early."""
    return (torch.arange(length) < torch.tensor(lengths)[:, None]).long()


def inputs(name: str, ids: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
    """What a forward pass of this model is given for a text and its mask."""
    told = {"input_ids": ids}
    if mask is not None:
        told["attention_mask"] = mask
    if MODELS[name].encodes:
        told["decoder_input_ids"] = ids.flip(1)[:, :-4]
    if name.startswith("xlnet"):
        # Two segments, and a third of one token, as <cls> has.
        at = torch.arange(ids.shape[1]).expand(ids.shape)
        told["token_type_ids"] = (at > 5).long() + (at == ids.shape[1] - 2)
    return told


def output(model: Any, **told: Any) -> Tensor:
    """Its logits, or what its last layer gives where it has none."""
    made = model(**told)
    return made.logits if hasattr(made, "logits") else made.last_hidden_state


def assert_same(made: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> None:
    """Equal to within `tolerance` of the largest number."""
    assert made.isfinite().all()
    apart = (made - expected).abs().max() / expected.abs().max()
    assert apart < tolerance, f"{apart:.1e} of the largest number apart"
