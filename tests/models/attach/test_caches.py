"""posenc's caches under `generate` of transformers."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import PosencError
from posenc.models.attach.caches import LayerCache
from posenc.models.cache_names import given_cache
from tests.support.families import FAMILIES

transformers = pytest.importorskip("transformers")


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(vocab_size=97, pad_token_id=0, **sizes, **heads)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.fixture
def prompt() -> dict[str, torch.Tensor]:
    ids = torch.randint(1, 97, (2, 20), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[0, :6] = 0
    return {"input_ids": ids, "attention_mask": mask}


def generated(model: Any, prompt: dict[str, torch.Tensor], **settings: Any) -> tuple[Any, Any]:
    """Tokens, and the scores that they were taken by."""
    told = {"max_new_tokens": 12, "do_sample": False, "return_dict_in_generate": True}
    out = model.generate(**prompt, output_scores=True, **told, **settings)
    return out.sequences, torch.stack(out.scores)


def posenc_cache(model: Any, make: Any) -> Any:
    from posenc.models.attach.caches import PosencCache

    return PosencCache(model, make)


@pytest.mark.parametrize(
    ("raw_keys", "policy"), [(False, "rotated"), (True, "raw"), (True, "rotated")]
)
@pytest.mark.parametrize("beams", [1, 3])
def test_text_is_the_same(
    model: Any, prompt: dict[str, torch.Tensor], raw_keys: bool, policy: Any, beams: int
) -> None:
    expected, expected_scores = generated(model, prompt, num_beams=beams)
    pe.attach(model, raw_keys=raw_keys)
    cache = posenc_cache(model, lambda: pe.Cache(policy))
    tokens, scores = generated(model, prompt, num_beams=beams, **given_cache(model, cache))
    assert torch.equal(tokens, expected)
    torch.testing.assert_close(scores, expected_scores, atol=1e-5, rtol=0)
    assert len(cache.of_layer(0)) == tokens.shape[1] - 1


def test_a_rolling_cache_forgets_what_its_masks_hide(
    model: Any, prompt: dict[str, torch.Tensor]
) -> None:
    pe.attach(model, [pe.Rotary(16), pe.SlidingWindow(8), pe.Sinks(2)], raw_keys=True)
    expected, expected_scores = generated(model, prompt)
    cache = posenc_cache(model, lambda: pe.RollingCache(8, sinks=2))
    tokens, scores = generated(model, prompt, **given_cache(model, cache))
    assert torch.equal(tokens, expected)
    torch.testing.assert_close(scores, expected_scores, atol=1e-5, rtol=0)
    assert len(cache.of_layer(0)) < 12


@torch.no_grad()
@pytest.mark.parametrize("raw_keys", [False, True])
@pytest.mark.parametrize("encoding", [None, pe.ALiBi(4)])
def test_masks_of_pairs_are_read_beside_them(model: Any, encoding: Any, raw_keys: bool) -> None:
    pe.attach(model, encoding, raw_keys=raw_keys)
    ids = torch.randint(1, 97, (2, 9), generator=torch.Generator().manual_seed(2))
    seen = torch.ones(9, 9).tril().bool()
    # Some token that nobody sees but itself.
    seen[3:, 2], seen[2, 2] = False, True
    seen = seen[None, None].expand(2, 1, 9, 9)
    expected = model(ids, attention_mask=seen, use_cache=False).logits
    cache = posenc_cache(model, lambda: pe.Cache("raw" if raw_keys else "rotated"))
    held = given_cache(model, cache)
    made = [
        model(ids[:, begin:end], attention_mask=seen[:, :, begin:end, :end], **held).logits
        for begin, end in ((0, 6), (6, 7), (7, 9))
    ]
    torch.testing.assert_close(torch.cat(made, dim=1), expected, atol=1e-5, rtol=0)


def test_cropped_and_repeated_caches_go_on(model: Any) -> None:
    pe.attach(model)
    ids = torch.randint(1, 97, (1, 10), generator=torch.Generator().manual_seed(2))
    cache = posenc_cache(model, pe.Cache)
    with torch.no_grad():
        whole = model(ids).logits
        model(ids, **given_cache(model, cache))
        cache.crop(-4)
        assert cache.get_seq_length() == 6
        cache.batch_repeat_interleave(2)
        again = model(ids[:, 6:].expand(2, -1), **given_cache(model, cache)).logits
    torch.testing.assert_close(again, whole[:, 6:].expand(2, -1, -1), atol=1e-5, rtol=0)
    cache.reset()
    assert cache.get_seq_length() == 0


def answered(model: Any, mask: torch.Tensor, cache: Any) -> torch.Tensor:
    """Logits of what is real behind a prompt of 5 tokens, which was given without a mask."""
    ids = torch.randint(1, 97, mask.shape, generator=torch.Generator().manual_seed(2))
    places = (mask.cumsum(-1) - 1).clamp(min=0)
    held = given_cache(model, cache)
    logits = [model(ids[:, :5], **held).logits]
    for begin, end in ((5, 9), (9, 10), (10, 12)):
        told = {"attention_mask": mask[:, :end], "position_ids": places[:, begin:end]}
        logits.append(model(ids[:, begin:end], **held, **told).logits)
    return torch.cat(logits, dim=1)[mask.bool()]


@torch.no_grad()
@pytest.mark.parametrize("make", [pe.Cache, lambda: pe.Cache("raw")])
def test_padding_that_later_calls_tell_of_is_hidden(model: Any, make: Any) -> None:
    mask = torch.ones(3, 12, dtype=torch.long)
    # Before what is new, behind it, and in what is held, as a chat's rows of unlike lengths are.
    mask[0, 5:7] = mask[1, 8] = mask[2, 3:5] = 0
    expected = answered(model, mask, transformers.DynamicCache())
    pe.attach(model)
    made = answered(model, mask, posenc_cache(model, make))
    torch.testing.assert_close(made, expected, atol=1e-5, rtol=0)
    with pytest.raises(PosencError, match="pad the prompt alone"):
        answered(model, mask, posenc_cache(model, lambda: pe.StaticCache(32)))
    pe.attach(model, raw_keys=True)
    # Of an encoding that reads distances the ids say others than the slots.
    with pytest.raises(PosencError, match="counted one by one"):
        answered(model, mask, posenc_cache(model, make))


@torch.no_grad()
def test_position_ids_are_read_beside_them(model: Any) -> None:
    ids = torch.randint(1, 97, (1, 8), generator=torch.Generator().manual_seed(2))
    places = torch.tensor([[0, 1, 2, 10, 11, 12, 20, 21]])
    expected = model(ids, position_ids=places).logits
    pe.attach(model, raw_keys=True)
    held = given_cache(model, posenc_cache(model, lambda: pe.Cache("raw")))
    made = model(ids, position_ids=places, **held).logits
    torch.testing.assert_close(made, expected, atol=1e-5, rtol=0)
    held = given_cache(model, posenc_cache(model, lambda: pe.Cache("raw")))
    model(ids, **held)
    # Two branches of a tree, and a gap.
    for later in ([[8, 9, 9]], [[9, 10, 11]]):
        with pytest.raises(PosencError, match="counted one by one"):
            model(ids[:, :3], position_ids=torch.tensor(later), **held)


def test_without_posenc_in_the_model_nothing_is_read_from_it(model: Any) -> None:
    model.set_attn_implementation("eager")
    held = given_cache(model, posenc_cache(model, pe.Cache))
    ids = torch.randint(1, 97, (1, 4))
    with torch.no_grad():
        model(ids, **held)
        # Its own attention is given the new keys alone, and says so.
        with pytest.raises((RuntimeError, PosencError)):
            model(ids[:, :1], **held)


@pytest.mark.parametrize("raw_keys", [False, True])
def test_learned_sinks_stand_beside_what_posencs_caches_hold(raw_keys: bool) -> None:
    theirs, ours = FAMILIES["gpt oss"].pair()
    prompt = {"input_ids": torch.randint(3, 97, (2, 9), generator=torch.manual_seed(1))}
    expected, expected_scores = generated(theirs, prompt)
    pe.attach(ours, raw_keys=raw_keys)
    policy: Any = "raw" if raw_keys else "rotated"
    for settings in ({}, given_cache(ours, posenc_cache(ours, lambda: pe.Cache(policy)))):
        tokens, scores = generated(ours, prompt, **settings)
        assert torch.equal(tokens, expected)
        torch.testing.assert_close(scores, expected_scores, atol=1e-5, rtol=0)


def test_a_crop_that_is_refused_changes_no_count() -> None:
    x = torch.randn(1, 2, 12, 8)
    layer = LayerCache(pe.RollingCache(4))
    pe.attend(x, x, x, pe.SlidingWindow(4), causal=True, cache=layer.own)
    layer.seen = 12
    layer.crop(0)
    with pytest.raises(PosencError):
        layer.crop(-1)
    assert layer.seen == 12
