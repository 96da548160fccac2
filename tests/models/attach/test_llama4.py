"""Llama 4 with posenc: chunks by their rule, caches that roll by them, its temperature once."""

from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc.encodings.temperature import Temperature
from tests.support.families import FAMILIES, Family
from tests.support.forwards import (
    assert_differ,
    assert_same,
    decoded,
    left_padding,
    logits,
    text,
)

transformers = pytest.importorskip("transformers")

LENGTH, CHUNK = 22, 6
# What shows within a few tokens: scores grow from the fifth on.
SCOUT = Family(
    "llama4_text", {**FAMILIES["llama 4"].settings, "floor_scale": 5, "attn_scale": 0.7}, window=6
)
PLACES = torch.cat([torch.arange(n) for n in (8, 13, 1)])[None]


@pytest.fixture(scope="module", params=["its own", "of its configuration", "raw keys"])
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    theirs, ours = SCOUT.pair()
    if request.param != "its own":
        pe.attach(ours, pe.layers(ours.config), raw_keys=request.param == "raw keys")
    return theirs, ours


def test_whole_texts(pair: tuple[Any, Any]) -> None:
    theirs, ours = pair
    ids = text(length=LENGTH)
    assert_same(logits(ours, ids), logits(theirs, ids))


def test_what_is_told_says_all_of_the_layers(pair: tuple[Any, Any]) -> None:
    """Without chunks, turns or temperature others come out, so each of them is tried here."""
    ids = text(length=LENGTH)
    made = logits(pair[0], ids)
    for change in ({"attention_chunk_size": 64}, {"floor_scale": 64}, {"no_rope_layers": [0] * 3}):
        other = Family("llama4_text", {**SCOUT.settings, **change}).build()
        assert_differ(logits(other, ids), made, str(change))


@pytest.mark.parametrize("chunks", [[1] * LENGTH, [4, 3, 15], [9, 4, 2, 7], [6, 6, 6, 4]], ids=str)
@pytest.mark.parametrize("cache", ["dynamic", "static", "posenc"])
def test_decoding(pair: tuple[Any, Any], cache: str, chunks: list[int]) -> None:
    theirs, ours = pair
    ids = text(length=LENGTH)
    held = cache_of(cache, ours)
    made = decoded(ours, ids, held, chunks)
    assert_same(made, logits(theirs, ids))
    if cache == "posenc":
        # Of four chunks the last is not full yet; the layer without positions sees all.
        assert [len(held.of_layer(i)) for i in range(3)] == [LENGTH % CHUNK, LENGTH % CHUNK, LENGTH]


def cache_of(name: str, model: Any) -> Any:
    from posenc.models.attach.caches import PosencCache

    if name == "dynamic":
        return transformers.DynamicCache(config=model.config)
    if name == "static":
        return transformers.StaticCache(config=model.config, max_cache_len=LENGTH)
    raw = "as cos and sin" not in model._posenc.routes[0]
    return PosencCache(model, pe.layers(model.config).caches("raw" if raw else "rotated"))


@pytest.mark.parametrize("cache", ["none", "dynamic", "posenc"])
def test_padded_rows(pair: tuple[Any, Any], cache: str) -> None:
    """Chunks begin at the first real token; the model's code counts padding for its growth."""
    theirs, ours = pair
    ids = text(rows=3, length=LENGTH)
    told = left_padding(ids, [LENGTH, 17, 14])
    real = told["attention_mask"].bool()
    expected = logits(theirs, ids, **told)
    if cache == "none":
        made = logits(ours, ids, **told)
    else:
        made = decoded(ours, ids, cache_of(cache, ours), [10, 4, 1, 7], **told)
    assert_same(made[real], expected[real])
    alone = logits(theirs, ids[2:, -14:])
    assert (expected[2:, -14:] - alone).abs().max() > 0.01, "transformers' growth counts padding"


def test_packed_rows(pair: tuple[Any, Any]) -> None:
    """Chunks begin with each document; the model's code counts its growth along the row."""
    theirs, ours = pair
    ids = text(rows=2, length=LENGTH)
    told = {"position_ids": PLACES.expand(2, -1), "use_cache": False}
    assert_same(logits(ours, ids, **told), logits(theirs, ids, **told))
    # A cache that the model makes itself keeps transformers from seeing the documents.
    assert_same(logits(ours, ids, position_ids=told["position_ids"]), logits(theirs, ids, **told))


def test_chunks_are_a_rule() -> None:
    """And no documents, which each token would be compared by."""
    from posenc.mask_rules import Chunk
    from posenc.terms import Mask

    seen: dict[int, Any] = {}
    _, ours = SCOUT.pair()

    def keep(number: int, q: Tensor, k: Tensor, v: Tensor, lowered: Any, *_: Any) -> None:
        seen[number] = lowered

    for layer in ours.model.layers:
        layer.self_attn.posenc_watch = keep
    for told in ({}, left_padding(text(length=LENGTH), [LENGTH, 9])):
        logits(ours, text(length=LENGTH), **told)
        assert [term.rule for term in seen[0].terms if isinstance(term, Mask)] == [Chunk(CHUNK)]
        assert seen[0].positions.keys.document is None
        assert not [term for term in seen[2].terms if isinstance(term, Mask)]


def test_its_temperature_is_told_and_acts_once() -> None:
    _, ours = SCOUT.pair()
    own = Temperature("llama4", 5, strength=0.7)
    assert f"1 layer: {own!r} in the model's code" in str(ours._posenc)
    assert repr(own) in repr(pe.layers(ours.config))
    attached = pe.attach(ours, pe.layers(ours.config))
    assert f"{own!r} in the model's code" in attached.routes[2]
    assert ours.config.posenc["layers"][2] == []
    with pytest.raises(pe.UnsupportedError, match="grow twice"):
        pe.attach(ours, [pe.Rotary(8, layout="interleaved"), Temperature("log_n", 8)])


def test_a_list_of_other_caches_than_layers_is_refused() -> None:
    from posenc.models.attach.caches import PosencCache

    _, ours = SCOUT.pair()
    with pytest.raises(pe.CacheError, match="2 caches for a model of 3 layers"):
        PosencCache(ours, [pe.Cache(), pe.Cache()])
