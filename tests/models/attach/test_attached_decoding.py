"""posenc under a model computes what transformers computes: tokens behind a cache."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.models.cache_names import given_cache
from tests.support.families import DECODERS, FAMILIES
from tests.support.forwards import assert_same, decoded, left_padding, logits, text
from tests.support.spread import spread

transformers = pytest.importorskip("transformers")

LENGTH = 15
# Windows are of 6 tokens: prompts that are shorter, as long and longer, and more than one behind.
CHUNKS = {
    "one by one": [1] * LENGTH,
    "short prompt": [4] + [1] * 11,
    "prompt of a window": [6, 1, 1, 7],
    "long prompt": [10] + [1] * 5,
    "chunks": [4, 3, 8],
    "chunks behind a window": [9, 4, 2],
}


def dynamic(model: Any) -> Any:
    return transformers.DynamicCache(config=model.config)


def growing(model: Any) -> Any:
    """Without the configuration it keeps what windows hide."""
    return transformers.DynamicCache()


def static(model: Any) -> Any:
    return transformers.StaticCache(config=model.config, max_cache_len=LENGTH + 4)


def tight(model: Any) -> Any:
    return transformers.StaticCache(config=model.config, max_cache_len=LENGTH)


CACHES = [dynamic, growing, static]


@pytest.fixture(scope="module", params=DECODERS)
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return FAMILIES[request.param].pair()


@pytest.mark.parametrize(
    ("pair", "chunks", "cache"), spread(DECODERS, CHUNKS, CACHES), indirect=["pair"]
)
def test_text(pair: tuple[Any, Any], cache: Any, chunks: str) -> None:
    ids = text()
    made = decoded(pair[1], ids, cache(pair[1]), CHUNKS[chunks])
    assert_same(made, decoded(pair[0], ids, cache(pair[0]), CHUNKS[chunks]))
    assert_same(made, logits(pair[1], ids))


@pytest.mark.parametrize("cache", [*CACHES, tight])
def test_left_padding(pair: tuple[Any, Any], cache: Any) -> None:
    ids = text(rows=3)
    told = left_padding(ids, [LENGTH, 9, 7])
    chunks = [9, 4, 1, 1]
    theirs, ours = (decoded(model, ids, cache(model), chunks, **told) for model in pair)
    real = told["attention_mask"].bool()
    assert_same(ours[real], theirs[real])
    alone = [logits(pair[1], ids[i : i + 1, -n:])[0] for i, n in enumerate([LENGTH, 9, 7])]
    assert_same(ours[real], torch.cat(alone))


def test_a_cropped_cache_goes_on(pair: tuple[Any, Any]) -> None:
    ids, cache = text(), growing(pair[1])
    other = text(seed=2)[:, :3]
    decoded(pair[1], torch.cat([ids[:, :8], other], dim=1), cache, [8, 3])
    cache.crop(-3)
    made = logits(pair[1], ids[:, 8:], **given_cache(pair[1], cache))
    assert_same(made, logits(pair[1], ids)[:, 8:])


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("encoding", [pe.Temperature("log_n", 4), pe.FIRE(heads=4)], ids=repr)
def test_what_reads_positions_reads_them_in_the_whole_text(
    encoding: pe.Encoding, cache: Any
) -> None:
    """And not among the tokens that a cache of a window still holds."""
    _, ours = FAMILIES["mistral"].pair()
    pe.attach(ours, [pe.Rotary(8), encoding])
    for told in ({}, left_padding(text(), [LENGTH, 9])):
        made = decoded(ours, text(), cache(ours), [9, 1, 1, 4], **told)
        real = told["attention_mask"].bool() if told else ...
        assert_same(made[real], logits(ours, text(), **told)[real])


@pytest.mark.parametrize("encoding", [pe.Sinks(2), pe.LMInfinite(8, window=4, sinks=2)], ids=repr)
def test_sinks_are_seen_where_a_cache_keeps_them_and_refused_where_it_does_not(
    encoding: pe.Encoding,
) -> None:
    _, ours = FAMILIES["mistral"].pair()
    rotary = [] if isinstance(encoding, pe.LMInfinite) else [pe.Rotary(8)]
    pe.attach(ours, [*rotary, encoding])
    made = decoded(ours, text(), growing(ours), [9, 1, 1, 4])
    assert_same(made, logits(ours, text()))
    for cache in (dynamic, static):
        with pytest.raises(pe.CacheError, match=r"drops what lies 6 tokens back.*DynamicCache\(\)"):
            decoded(ours, text(), cache(ours), [9, 1, 1, 4])
