"""A cache whose values are a part of its keys."""

import pytest
import torch

import posenc as pe
from tests.support.oracles import drawing

LATENT, TURNED = 512, 64
ROPE = pe.Rotary(LATENT + TURNED, rotary_dim=TURNED, start=-TURNED)


def decode(cache: pe.Cache, tokens: int, steps: int) -> None:
    draw = drawing(0)
    for count in (tokens, *[1] * steps):
        q, k = draw(1, 8, count, LATENT + TURNED), draw(1, 1, count, LATENT + TURNED)
        pe.attend(q, k, k[..., :LATENT], ROPE, causal=True, cache=cache)


def bytes_of(cache: pe.Cache) -> int:
    """Of all memory that its tensors lie in, each piece once."""
    held = [x for x in (cache.k, cache.v) if x is not None]
    return sum(
        {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in held}.values()
    )


def test_a_token_takes_576_numbers() -> None:
    latents, cache = pe.LatentCache(length=256), pe.Cache(length=256)
    for each in (latents, cache):
        decode(each, 250, 6)
        assert len(each) == 256
    assert bytes_of(latents) == 8 * 256 * (LATENT + TURNED)
    assert bytes_of(cache) == 8 * 256 * (LATENT + TURNED + LATENT)
    assert torch.equal(latents.k, cache.k)
    assert torch.equal(latents.v, cache.v)


def test_values_stay_a_part_of_keys_that_are_moved() -> None:
    cache = pe.LatentCache()
    decode(cache, 6, 1)
    for change in (lambda: cache.truncate(5), lambda: cache.reorder(torch.tensor([0, 0]))):
        change()
        assert cache.v.shape[-1] == LATENT
        assert cache.v.data_ptr() == cache.k.data_ptr()
        assert torch.equal(cache.v, cache.k[..., :LATENT])
    cache.reset()
    assert cache.v is None


def test_other_values_are_refused() -> None:
    q, k, v = drawing(1)(3, 1, 2, 4, 16).unbind()
    for values, encoding in (
        (v, pe.Rotary(16, rotary_dim=8, start=8)),
        (k[..., :8], pe.Rotary(16)),
    ):
        cache = pe.LatentCache()
        with pytest.raises(pe.CacheError, match="takes the first"):
            pe.attend(q, k, values, encoding, causal=True, cache=cache)
        assert len(cache) == 0


def test_a_first_token_that_nothing_turns_shows_nothing() -> None:
    """At position 0 keys are what they were, and later ones would not be."""
    q, k = drawing(1)(2, 1, 2, 1, 16).unbind()
    for encoding, width in ((pe.Rotary(16), 8), (pe.LieRE(16), 8), (pe.RotaryValues(16), 16)):
        cache = pe.LatentCache()
        with torch.no_grad(), pytest.raises(pe.CacheError, match=f"takes the first {width}"):
            pe.attend(q, k, k[..., :width], encoding, causal=True, cache=cache)
        assert len(cache) == 0
    both = [pe.Rotary(16), pe.RotaryValues(16)]
    pe.attend(q, k, k, both, causal=True, cache=(cache := pe.LatentCache()))
    assert len(cache) == 1
