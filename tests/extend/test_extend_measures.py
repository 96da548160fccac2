"""Each measure against a direct computation, and passkeys on a model that is built to copy."""

import math
import re
from itertools import pairwise
from typing import Any

import pytest
import torch
from extend_models import TRAINED, Copier, byte_tokenizer, some_text, tiny_model
from torch import Tensor

from posenc.errors import LabError
from posenc.extend.cells import DEPTHS, Cell, Lengths
from posenc.extend.material import Material
from posenc.extend.measures import MEASURES

LENGTHS = Lengths(TRAINED, (256,))


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model()


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "opens"])
def material(request: pytest.FixtureRequest) -> Material:
    return Material.of(byte_tokenizer(opens=request.param), some_text(), spans=2, longest=256)


def measured(model: Any, material: Material, cell: Cell) -> dict[str, Any]:
    return MEASURES[cell.measure](model, material, LENGTHS, 0, cell)


def losses(model: Any, ids: Tensor) -> Tensor:
    """Of all tokens but the first, by one forward."""
    with torch.no_grad():
        logits = model(ids[None]).logits[0, :-1]
    return torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none").double()


def test_windows_are_means_by_position(model: Any, material: Material) -> None:
    result = measured(model, material, Cell("none", "windows", 256, 1))
    direct = losses(model, material.span(1, 256))
    assert result["edges"][0] == 0
    assert result["edges"][-1] == 256
    assert TRAINED in result["edges"]
    for mean, (a, b) in zip(result["bins"], pairwise(result["edges"]), strict=True):
        # The loss of the token at position p is number p - 1.
        own = [float(direct[p - 1]) for p in range(max(a, 1), b)]
        assert mean == pytest.approx(sum(own) / len(own), abs=1e-5)
    assert result["loss"] == pytest.approx(float(direct.mean()), abs=1e-5)
    assert result["targets"] == pytest.approx(float(direct[-4:].mean()), abs=1e-5)


def test_targets_are_the_same_tokens_with_less_before_them(model: Any, material: Material) -> None:
    assert LENGTHS.targets == 4
    assert LENGTHS.contexts == (16, 64)
    whole = material.span(0, 256)
    for length in LENGTHS.contexts:
        ids = torch.cat([whole[: len(material.opening)], whole[len(material.opening) - length :]])
        direct = losses(model, ids)[-4:].mean()
        result = measured(model, material, Cell("none", "targets", length, 0))
        assert result["targets"] == pytest.approx(float(direct), abs=1e-5)


def test_sliding_reads_no_token_farther_than_it_was_trained_for(
    model: Any, material: Material
) -> None:
    ids, direct = material.span(0, 256), []
    opening = ids[: len(material.opening)]
    for p in range(1, 256):
        # Windows begin at 0, 32, 64, ...: the first that holds the token is the one it is read in.
        begin = max(0, (p - TRAINED) // 32 * 32 + 32)
        window = torch.cat([opening, ids[begin + len(opening) : begin + TRAINED]])
        direct.append(float(losses(model, window)[p - begin - 1]))
    result = measured(model, material, Cell("none", "sliding", 256, 0))
    assert result["loss"] == pytest.approx(sum(direct) / len(direct), abs=1e-5)
    assert result["targets"] == pytest.approx(sum(direct[-4:]) / 4, abs=1e-5)
    whole = measured(model, material, Cell("none", "windows", 256, 0))
    within = result["edges"].index(TRAINED)
    assert result["bins"][:within] == pytest.approx(whole["bins"][:within], abs=1e-5)
    assert result["bins"][within:] != pytest.approx(whole["bins"][within:], abs=1e-2)


def test_short_reads_what_the_model_was_trained_for(model: Any, material: Material) -> None:
    result = measured(model, material, Cell("none", "short", LENGTHS.short, 0))
    direct = losses(model, material.span(0, TRAINED // 2)).mean()
    assert result["loss"] == pytest.approx(float(direct), abs=1e-5)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("index", range(3))
def test_a_copier_finds_every_key_and_guesses_none(
    depth: float, index: int, material: Material
) -> None:
    copier = Copier()
    found = measured(copier, material, Cell("none", "passkey", 256, index, depth))
    assert found["exact"]
    assert set(found["ranks"]) == {0}
    assert found["loss"] < 0.01
    blind = measured(copier, material, Cell("none", "control", 256, index))
    assert not blind["exact"]


def test_a_model_that_copies_nothing_finds_no_key(model: Any, material: Material) -> None:
    cells = [Cell("none", "passkey", 256, index, 0.5) for index in range(5)]
    assert not any(measured(model, material, cell)["exact"] for cell in cells)


def test_a_model_that_broke_down_finds_no_key(material: Material) -> None:
    broken = tiny_model()
    torch.nn.init.constant_(broken.lm_head.weight, math.nan)
    found = measured(broken, material, Cell("none", "passkey", 256, 0, 0.5))
    assert not found["exact"]
    assert found["loss"] is None


@pytest.mark.parametrize("length", [150, 256])
def test_a_prompt_is_as_long_as_it_is_told(length: int, material: Material) -> None:
    shallow, deep = (material.passkey(length, depth, "0/0") for depth in (0.0, 1.0))
    blind = material.passkey(length, None, "0/0")
    assert len(shallow.ids) == len(deep.ids) == len(blind.ids) == length
    said = [material.tokenizer.decode(x.ids[len(material.opening) :]) for x in (shallow, deep)]
    key = material.tokenizer.decode(blind.ids[blind.first :])
    assert re.fullmatch(r"\d{5}", key)
    assert all(text.count(key) == 3 for text in said)
    assert said[0].startswith(f"\nThe pass key is {key}.")
    assert said[1].endswith(
        f"{key} is the pass key.\n\nWhat is the pass key? The pass key is {key}"
    )
    assert material.tokenizer.decode(blind.ids).count(key) == 1


def test_other_seeds_hide_other_keys_in_other_places(material: Material) -> None:
    one, other = (material.passkey(256, 0.5, seed).ids for seed in ("0/0", "0/1"))
    assert not torch.equal(one[-5:], other[-5:])
    assert not torch.equal(one[:50], other[:50])


def test_a_key_that_has_no_room_is_refused_in_one_line(material: Material) -> None:
    with pytest.raises(LabError, match=r"takes \d+ tokens, and 64 are to be read") as raised:
        material.passkey(64, 0.5, "0/0")
    assert "\n" not in str(raised.value)
