"""posenc under models with attention code of their own: tokens behind a cache, and generate."""

from typing import Any

import pytest
import torch
from torch import Tensor

from posenc.errors import CacheError
from posenc.models.attach.caches import PosencCache
from posenc.models.cache_names import given_cache
from tests.support.own_code import MODELS, WRITERS, assert_same, output, right_padding, text

transformers = pytest.importorskip("transformers")

CHUNKS = [6, 1, 1, 4, 1]
LENGTHS = [15, 9, 4]


@pytest.fixture(scope="module", params=WRITERS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def pair(name: str) -> tuple[Any, Any]:
    return MODELS[name].pair()


def dynamic(model: Any) -> Any:
    cache = transformers.DynamicCache()
    return transformers.EncoderDecoderCache(cache, transformers.DynamicCache())


def static(model: Any) -> Any:
    cache = transformers.StaticCache(config=model.config, max_cache_len=sum(CHUNKS) + 4)
    return transformers.EncoderDecoderCache(cache, transformers.DynamicCache())


def posencs(model: Any) -> Any:
    return transformers.EncoderDecoderCache(PosencCache(model), transformers.DynamicCache())


@torch.no_grad()
def decoded(model: Any, ids: Tensor, mask: Tensor, cache: Any) -> Tensor:
    """Logits of ids, shown chunk by chunk; T5 writes them below a text with this mask."""
    encodes = model.config.is_encoder_decoder
    held = cache if encodes else cache.self_attention_cache
    told: dict[str, Any] = {**given_cache(model, held), "use_cache": True}
    if encodes:
        encoded = model.encoder(text(), attention_mask=mask)
        told |= {"encoder_outputs": encoded, "attention_mask": mask}
    parts, start = [], 0
    for size in CHUNKS:
        part = ids[:, start : start + size]
        if encodes:
            told["decoder_input_ids"] = part
        else:
            told |= {"input_ids": part, "attention_mask": mask[:, : start + size]}
        parts.append(output(model, **told))
        start += size
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("cache", [dynamic, static, posencs])
@pytest.mark.parametrize("padded", [False, True])
@torch.no_grad()
def test_tokens_behind_a_cache(name: str, pair: tuple[Any, Any], cache: Any, padded: bool) -> None:
    ids = text(seed=2)[:, : sum(CHUNKS)]
    mask = right_padding(LENGTHS).flip(1) if padded else torch.ones(3, 15).long()
    made = decoded(pair[1], ids, mask, cache(pair[1]))
    if MODELS[name].encodes:
        whole = output(pair[0], input_ids=text(), attention_mask=mask, decoder_input_ids=ids)
        assert_same(made, whole)
        return
    mask = mask[:, : sum(CHUNKS)]
    real = mask.bool()
    whole = output(pair[0], input_ids=ids, attention_mask=mask)
    assert_same(made[real], whole[real])
    # With a static cache transformers raises for Falcon's ALiBi, which it makes as long as the
    # text is, and for BLOOM's where a mask is given, and has the room of the cache to fill.
    # Without posenc nobody reads what posenc's caches hold.
    if cache is dynamic or (cache is static and not name.startswith(("falcon, alibi", "bloom"))):
        assert_same(made[real], decoded(pair[0], ids, mask, cache(pair[0]))[real])


@pytest.mark.parametrize(
    "how",
    [{}, {"use_cache": False}, {"num_beams": 3}, {"cache_implementation": "static"}],
    ids=lambda how: " ".join(map(str, how.values())) or "plain",
)
def test_generate(name: str, pair: tuple[Any, Any], how: dict[str, Any]) -> None:
    theirs = how
    if name == "falcon, alibi" and "cache_implementation" in how:
        # transformers raises: it takes the mask of four dimensions for one of two.
        theirs = {}
    told = {"max_new_tokens": 12, "do_sample": False, "disable_compile": True}
    told |= {"return_dict_in_generate": True, "output_scores": True}
    mask = right_padding(LENGTHS).flip(1)
    expected, made = (
        model.generate(text(), attention_mask=mask, **told, **settings)
        for model, settings in zip(pair, (theirs, how), strict=True)
    )
    assert torch.equal(made.sequences, expected.sequences)
    expected, made = torch.stack(expected.scores), torch.stack(made.scores)
    seen = expected.isfinite()
    assert torch.equal(made.isfinite(), seen)
    assert_same(made[seen], expected[seen])


def test_an_encoder_that_is_called_alone_reads_no_cache_of_before() -> None:
    model = MODELS["t5"].pair()[1]
    told = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    # As many rows as before, and as few tokens as its decoder.
    ids = text(seed=2)[:, :7]
    expected = model.generate(ids, **told)
    cache = posencs(model)
    first = model.generate(text(), **given_cache(model, cache), **told)
    assert cache.get_seq_length() == first.shape[1] - 1
    assert torch.equal(model.generate(ids, **told), expected)


def test_a_cache_of_the_decoder_alone_is_refused() -> None:
    model = MODELS["t5"].pair()[1]
    with pytest.raises(CacheError, match=r"keys of the encoder .*EncoderDecoderCache\("):
        model.generate(text(), **given_cache(model, PosencCache(model)), max_new_tokens=2)
