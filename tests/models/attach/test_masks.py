"""Masks that users give, and masks that nobody made."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc.models.attach.mask import posenc_mask
from posenc.models.cache_names import given_cache
from tests.support.families import DECODERS, FAMILIES
from tests.support.forwards import assert_differ, assert_same, logits, text

transformers = pytest.importorskip("transformers")

LENGTH = 12
IDS = text(rows=2, length=LENGTH)
FUTURE = torch.cat([IDS[:, :6], text(rows=2, length=6, seed=2)], dim=1)


@pytest.fixture
def unmasked() -> Iterator[None]:
    """The mask function taken out, as where attention alone was registered."""
    from transformers import AttentionMaskInterface

    from posenc.models.attach import register

    register()
    masks = AttentionMaskInterface._global_mapping
    kept = masks.pop("posenc")
    yield
    masks["posenc"] = kept


@pytest.mark.parametrize("name", DECODERS)
def test_without_a_mask_function_nobody_sees_the_future(name: str, unmasked: None) -> None:
    ours = FAMILIES[name].build()
    ours.set_attn_implementation("posenc")
    before, after = logits(ours, IDS), logits(ours, FUTURE)
    assert_same(after[:, :6], before[:, :6])
    assert_differ(after[:, 6:], before[:, 6:], "later tokens are others")


def test_what_a_forgotten_mask_does_to_others() -> None:
    """sdpa by another name, whose author told AttentionInterface alone: it sees the future."""
    from torch.nn.functional import scaled_dot_product_attention
    from transformers import AttentionInterface

    def bare(
        module: Any, q: Tensor, k: Tensor, v: Tensor, attention_mask: Any, **told: Any
    ) -> tuple[Tensor, None]:
        out = scaled_dot_product_attention(q, k, v, attn_mask=attention_mask, enable_gqa=True)
        return out.transpose(1, 2).contiguous(), None

    AttentionInterface.register("bare", bare)
    try:
        model = FAMILIES["llama"].build()
        model.set_attn_implementation("bare")
        assert_differ(logits(model, FUTURE)[:, :6], logits(model, IDS)[:, :6], "the future is seen")
    finally:
        del AttentionInterface._global_mapping["bare"]


def allowed(heads: int = 1) -> Tensor:
    """Causal, without some pairs; everybody sees himself."""
    generator = torch.Generator().manual_seed(3)
    seen = torch.rand(2, heads, LENGTH, LENGTH, generator=generator) < 0.6
    return (seen | torch.eye(LENGTH, dtype=torch.bool)).tril()


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("kind", ["bool", "float", "per head"])
def test_a_mask_of_every_pair(name: str, kind: str) -> None:
    theirs, ours = FAMILIES[name].pair()
    mask = allowed(4 if kind == "per head" else 1)
    told = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    # What transformers calls eager adds any mask to scores, and so takes numbers alone.
    numbers = kind == "float" or FAMILIES[name].truth == "eager"
    # OPT counts its positions off a mask, and of one of pairs it cannot.
    places = torch.arange(LENGTH)[None].expand(2, -1)
    made = logits(ours, IDS, attention_mask=told if kind == "float" else mask, position_ids=places)
    expected = logits(theirs, IDS, attention_mask=told if numbers else mask, position_ids=places)
    assert_same(made, expected)
    assert_differ(made, logits(ours, IDS), "not all pairs are seen")


def by_function(model: Any, ids: Tensor, **functions: Any) -> Tensor:
    """Logits under what create_causal_mask makes of functions of the user."""
    from transformers.masking_utils import create_causal_mask

    embeddings = model.get_input_embeddings()(ids)
    mask = create_causal_mask(
        config=model.config,
        inputs_embeds=embeddings,
        attention_mask=functions.pop("attention_mask", None),
        **given_cache(model, None),
        **functions,
    )
    return logits(model, ids, attention_mask=mask, use_cache=False)


PADDED = torch.ones(2, LENGTH, dtype=torch.long).index_fill(1, torch.tensor([LENGTH - 1]), 0)
IMAGES = torch.tensor([-1, -1, 0, 0, 0, -1, 1, 1, -1, -1, -1, -1])[None].expand(2, -1)
FUNCTIONS = {
    "or": {"or_mask_function": lambda b, h, q, k: (q < 4) & (k < 4)},
    "and": {"and_mask_function": lambda b, h, q, k: (q - k) % 3 != 1},
    "both": {
        "or_mask_function": lambda b, h, q, k: (q < 4) & (k < 4),
        "and_mask_function": lambda b, h, q, k: (q == k) | ((q + k) % 4 != 1),
    },
    "blocks": {"block_sequence_ids": IMAGES},
    "blocks and padding": {"block_sequence_ids": IMAGES, "attention_mask": PADDED},
    "blocks and documents": {
        "block_sequence_ids": IMAGES,
        "position_ids": torch.cat([torch.arange(5), torch.arange(7)])[None],
    },
}


@pytest.mark.parametrize("functions", FUNCTIONS)
def test_functions_of_the_user(functions: str) -> None:
    theirs, ours = FAMILIES["llama"].pair()
    made, expected = (by_function(x, IDS, **FUNCTIONS[functions]) for x in (ours, theirs))
    real = slice(0, LENGTH - 1)
    assert_same(made[:, real], expected[:, real])
    assert_differ(made[:, real], logits(ours, IDS)[:, real], "more or less is seen")


COUNTED = {
    "sinks": [pe.Rotary(8), pe.SlidingWindow(4), pe.Sinks(2)],
    "a length": pe.Rotary(8, base=100.0, scaling=pe.DynamicNTK(4.0, original_length=4)),
}


@pytest.mark.parametrize("encoding", COUNTED)
def test_what_is_counted_from_the_first_token_leaves_padding_out(encoding: str) -> None:
    """Beside images that see themselves too, where the mask is one of pairs."""
    model, padding = FAMILIES["llama"].build(), 5
    pe.attach(model, COUNTED[encoding])
    mask = torch.ones_like(IDS)
    mask[:, :padding] = 0
    padded = by_function(model, IDS, block_sequence_ids=IMAGES, attention_mask=mask)
    alone = by_function(model, IDS[:, padding:], block_sequence_ids=IMAGES[:, padding:])
    assert_same(padded[:, padding:], alone)


@pytest.mark.parametrize("name", ["llama", "gemma3", "mistral"])
def test_a_decoder_that_looks_both_ways(name: str) -> None:
    """config.is_causal = False makes an encoder of a decoder."""
    theirs, ours = FAMILIES[name].pair()
    for model in (theirs, ours):
        model.config.is_causal = False
    told = {"attention_mask": PADDED, "use_cache": False}
    made, expected = (logits(model, IDS, **told)[:, :-1] for model in (ours, theirs))
    assert_same(made, expected)


@pytest.mark.parametrize("raw_keys", [False, True])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_a_mask_of_every_pair_in_front_of_a_cache(cache: str, raw_keys: bool) -> None:
    """Slots that nothing was written to yet stand behind the queries of a static cache."""
    theirs, ours = FAMILIES["llama"].pair()
    pe.attach(ours, raw_keys=raw_keys)
    seen = torch.nn.functional.pad(allowed(), (0, 4))
    made, expected = [], []
    for model, out in ((ours, made), (theirs, expected)):
        held: Any = transformers.DynamicCache()
        if cache == "static":
            held = transformers.StaticCache(config=model.config, max_cache_len=LENGTH + 4)
        told = given_cache(model, held)
        for part in torch.arange(LENGTH).split([7, 4, 1]):
            slots = LENGTH + 4 if cache == "static" else int(part[-1]) + 1
            mask = seen[:, :, part, :slots]
            out.append(logits(model, IDS[:, part], attention_mask=mask, **told))
    assert_same(torch.cat(made, dim=1), torch.cat(expected, dim=1))


@pytest.mark.parametrize("encoding", ["growth", "sinks"])
def test_pairs_behind_a_cache_that_has_dropped_tokens(encoding: str) -> None:
    """Places are those in the whole sequence, as where a rule says what is seen."""
    from transformers.masking_utils import create_sliding_window_causal_mask

    model = FAMILIES["mistral"].build()
    added = {"growth": pe.Temperature("llama4", original_length=3), "sinks": pe.Sinks(2)}
    pe.attach(model, [pe.Rotary(8), added[encoding]])

    def made(ids: Tensor, cache: Any) -> Tensor:
        held = given_cache(model, cache)
        mask = create_sliding_window_causal_mask(
            config=model.config,
            inputs_embeds=model.get_input_embeddings()(ids),
            attention_mask=None,
            and_mask_function=lambda b, h, q, k: k >= 0,
            **held,
        )
        used = {"use_cache": False} if cache is None else held
        return logits(model, ids, attention_mask=mask, **used)

    cache = transformers.DynamicCache(config=model.config)
    parts = [made(part, cache) for part in IDS.split([8, 3, 1], dim=1)]
    assert_same(torch.cat(parts, dim=1), made(IDS, None))


def test_blocks_inside_of_documents_are_no_rule() -> None:
    """As transformers composes them from 5.24 on."""
    from transformers.masking_utils import (
        and_masks,
        blockwise_overlay,
        causal_mask_function,
        or_masks,
        packed_sequence_mask_function,
        sdpa_mask,
    )

    documents = torch.tensor([[0] * 5 + [1] * 7])
    blocks = or_masks(causal_mask_function, blockwise_overlay(IMAGES[:1]))
    function = and_masks(blocks, packed_sequence_mask_function(documents))
    sizes = {"batch_size": 1, "q_length": LENGTH, "kv_length": LENGTH, "mask_function": function}
    expected = sdpa_mask(**sizes, allow_is_causal_skip=False)
    assert torch.equal(posenc_mask(**sizes).seen, expected)
