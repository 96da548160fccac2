"""posenc under trained models: the same logits, the same text, and nearer to the truth."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import posenc as pe
from posenc.models.loading import load_model
from tests.support.trained import minilm, smollm2

pytestmark = pytest.mark.trained

TEXT = "Position encoding tells a Transformer where its tokens are. " * 3
PROMPTS = ["The capital of France is", "Here is a list of the planets of the solar system:"]


@pytest.fixture(scope="module")
def decoder() -> Any:
    return load_model(smollm2())


@pytest.fixture(autouse=True)
def detached(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for name in ("decoder", "encoder"):
        if name in request.fixturenames:
            pe.detach(request.getfixturevalue(name).model)


@pytest.fixture(scope="module")
def encoder() -> Any:
    return load_model(minilm())


def both(model: Any, **inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """What transformers returns, and what it returns with posenc."""
    outputs = []
    for change in (pe.detach, pe.attach):
        change(model)
        with torch.no_grad():
            outputs.append(model(**inputs)[0])
    return outputs[0], outputs[1]


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Within 1e-5 of the largest number."""
    assert float((ours - theirs).abs().max()) <= 1e-5 * float(theirs.abs().max())


def test_logits_are_the_same(decoder: Any) -> None:
    ids = decoder.tokenizer(TEXT, return_tensors="pt").input_ids
    assert_close(*both(decoder.model, input_ids=ids))


def test_they_are_nearer_to_the_truth(decoder: Any) -> None:
    """transformers makes angles in float32; its own float64 run is the judge, by exact angles."""
    ids = decoder.tokenizer(TEXT * 8, return_tensors="pt").input_ids
    theirs, ours = both(decoder.model, input_ids=ids)
    exact = load_model(smollm2(), dtype=torch.float64).model
    pe.attach(exact)
    with torch.no_grad():
        truth = exact(ids).logits
    errors = [float((x - truth).abs().max()) for x in (ours, theirs)]
    assert errors[0] <= errors[1]


def test_padding_and_packing_change_nothing(decoder: Any) -> None:
    tokenizer = decoder.tokenizer
    batch = tokenizer(PROMPTS, return_tensors="pt", padding=True, padding_side="left")
    mask = batch.attention_mask
    assert not mask.all()
    ids = (mask.cumsum(-1) - 1).clamp(min=0)
    theirs, ours = both(decoder.model, **batch, position_ids=ids)
    assert_close(ours * mask[..., None], theirs * mask[..., None])

    rows = [tokenizer(x).input_ids for x in PROMPTS]
    packed = torch.tensor([rows[0] + rows[1]])
    counted = torch.tensor([[*range(len(rows[0])), *range(len(rows[1]))]])
    theirs, ours = both(decoder.model, input_ids=packed, position_ids=counted, use_cache=False)
    assert_close(ours, theirs)
    with torch.no_grad():
        alone = decoder.model(torch.tensor([rows[1]])).logits
    assert_close(ours[:, len(rows[0]) :], alone)


@pytest.mark.parametrize("cache", [None, "static"])
def test_it_writes_the_same_text(decoder: Any, cache: str | None) -> None:
    batch = decoder.tokenizer(PROMPTS, return_tensors="pt", padding=True, padding_side="left")
    settings = {"max_new_tokens": 16, "do_sample": False, "cache_implementation": cache}
    expected = decoder.model.generate(**batch, **settings)
    pe.attach(decoder.model)
    assert torch.equal(decoder.model.generate(**batch, **settings), expected)
    assert "Paris" in decoder.tokenizer.decode(expected[0])


def test_a_stretch_is_that_of_transformers(decoder: Any) -> None:
    ids = decoder.tokenizer(TEXT, return_tensors="pt").input_ids
    config = decoder.model.config
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
    stretched = type(config)(**config.to_dict() | {"rope_parameters": {"rope_theta": 1e5, **yarn}})
    theirs = type(decoder.model)(stretched).eval()
    theirs.load_state_dict(decoder.model.state_dict())
    pe.attach(decoder.model, pe.Rotary(64, base=1e5, scaling=pe.YaRN(4.0, 8192)))
    with torch.no_grad():
        assert_close(decoder.model(ids).logits, theirs(ids).logits)


def test_embeddings_of_sentences_are_the_same(encoder: Any) -> None:
    batch = encoder.tokenizer([TEXT, *PROMPTS], return_tensors="pt", padding=True)
    theirs, ours = both(encoder.model, **batch)
    mask = batch.attention_mask[..., None]
    assert_close(ours * mask, theirs * mask)


def test_a_table_is_replaced_by_its_own_rows(encoder: Any) -> None:
    batch = encoder.tokenizer([TEXT], return_tensors="pt")
    with torch.no_grad():
        expected = encoder.model(**batch)[0]
        rows = encoder.model.embeddings.position_embeddings.weight
        pe.attach(encoder.model, pe.Learned.from_rows(rows))
        assert_close(encoder.model(**batch)[0], expected)
        pe.attach(encoder.model, pe.NoPE())
        assert float((encoder.model(**batch)[0] - expected).abs().max()) > 0.1
