"""Text with images: positions of three axes, and the tower that sees."""

from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc.errors import PositionsError
from posenc.models.attach import detach
from tests.support.families import VOCABULARY
from tests.support.forwards import assert_differ, assert_same, decoded, logits, text

transformers = pytest.importorskip("transformers")

IMAGE, START, END = 3, 4, 5


def build(truth: str = "sdpa") -> Any:
    told = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "initializer_range": 0.3,
        "max_position_embeddings": 128,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [2, 1, 1],
        },
    }
    seen = {"depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "patch_size": 4}
    config = transformers.Qwen2VLConfig(
        text_config=told,
        vision_config={**seen, "initializer_range": 0.3},
        image_token_id=IMAGE,
        vision_start_token_id=START,
        vision_end_token_id=END,
    )
    torch.manual_seed(0)
    kind = transformers.Qwen2VLForConditionalGeneration
    return kind._from_config(config, attn_implementation=truth).eval()


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    theirs, ours = build(), build()
    pe.attach(ours)
    return theirs, ours


def pictured() -> tuple[Tensor, dict[str, Tensor]]:
    """A text with an image of 4 x 6 patches, which are 2 x 3 tokens."""
    words = text(rows=1, length=10).clamp(min=6)
    image = torch.tensor([[START, *[IMAGE] * 6, END]])
    ids = torch.cat([words[:, :4], image, words[:, 4:]], dim=1)
    patches = torch.randn(24, 3 * 2 * 4 * 4, generator=torch.Generator().manual_seed(2))
    told = {"pixel_values": patches, "image_grid_thw": torch.tensor([[1, 4, 6]])}
    return ids, {**told, "mm_token_type_ids": (ids == IMAGE).long()}


def test_text_alone(pair: tuple[Any, Any]) -> None:
    ids = text().clamp(min=6)
    theirs, ours = (logits(model, ids) for model in pair)
    assert_same(ours, theirs)
    cache = transformers.DynamicCache(config=pair[1].config.get_text_config())
    assert_same(decoded(pair[1], ids, cache, [9, *[1] * 6]), theirs)


def test_an_image_in_text(pair: tuple[Any, Any]) -> None:
    ids, told = pictured()
    theirs, ours = (logits(model, ids, **told) for model in pair)
    assert_same(ours, theirs)
    other = {**told, "image_grid_thw": torch.tensor([[1, 6, 4]])}
    assert_differ(logits(pair[1], ids, **other), ours, "columns and rows are positions")


def test_generate_behind_an_image(pair: tuple[Any, Any]) -> None:
    ids, told = pictured()
    settings = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    assert torch.equal(*(model.generate(ids, **told, **settings) for model in pair))


def test_positions_of_three_axes(pair: tuple[Any, Any]) -> None:
    ids = text(rows=1).clamp(min=6)
    places = torch.randint(0, 20, (3, 1, 15), generator=torch.Generator().manual_seed(4))
    theirs, ours = (logits(model, ids, position_ids=places) for model in pair)
    assert_same(ours, theirs)


@pytest.mark.parametrize("raw_keys", [False, True])
def test_keys_as_they_are_projected(pair: tuple[Any, Any], raw_keys: bool) -> None:
    ids, told = pictured()
    ours = build()
    pe.attach(ours, raw_keys=raw_keys)
    assert_same(logits(ours, ids, **told), logits(pair[0], ids, **told))
    if raw_keys:
        # Where an image was, its tokens in the cache are forgotten.
        with pytest.raises(PositionsError, match="needs cached tokens"):
            ours.generate(ids, **told, max_new_tokens=3, do_sample=False)


def test_each_part_gets_its_own_attention_back() -> None:
    model = build()
    model.set_attn_implementation({"vision_config": "eager", "text_config": "sdpa"})
    ids, told = pictured()
    before = logits(model, ids, **told)
    pe.attach(model)
    detach(model)
    assert model.config.vision_config._attn_implementation == "eager"
    assert model.config.text_config._attn_implementation == "sdpa"
    assert torch.equal(logits(model, ids, **told), before)


def test_a_bias_of_one_axis_is_refused_beside_an_image() -> None:
    model = build()
    ids, told = pictured()
    pe.attach(model, pe.ALiBi(heads=4))
    with pytest.raises(PositionsError, match=r"ALiBi.* 3 axes, as of images .* axes=3"):
        logits(model, ids, **told)
    pe.attach(model, pe.ALiBi(heads=4, axes=3))
    assert logits(model, ids, **told).isfinite().all()
