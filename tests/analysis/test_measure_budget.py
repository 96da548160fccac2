"""What is trained at one length and read at another."""

import math

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Encoding, PositionsError, SettingError
from posenc.analysis import measure
from tests.support.measured import exact


def rows_of(mask: Tensor) -> list[int]:
    return mask.flatten(1).any(dim=-1).nonzero().flatten().tolist()


def test_rows_beyond_training_are_untrained() -> None:
    card = measure.budget(pe.Learned(8, 40), 16, 32)
    assert card.parameters == 320
    assert rows_of(card.untrained["weight"]) == list(range(16, 32))
    assert rows_of(card.idle["weight"]) == list(range(32, 40))
    assert (card.largest_position, card.largest_distance) == (15, 15)
    assert card.unseen.tolist() == [False] * 16 + [True] * 16
    assert "untrained at 32: weight, 16 of 40 rows (16 to 31)" in str(card)
    assert "never read at 32: weight, 8 of 40 rows (32 to 39)" in str(card)
    with pytest.raises(PositionsError, match="max_length >= 41"):
        measure.budget(pe.Learned(8, 40), 16, 41)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_buckets_that_training_never_reached(bidirectional: bool) -> None:
    encoding = pe.T5Bias(4, bidirectional=bidirectional)
    card = measure.budget(encoding, 30, 90, causal=not bidirectional)

    def buckets(length: int) -> set[int]:
        ahead = length if bidirectional else 1
        return set(encoding.bucket(torch.arange(1 - length, ahead)).tolist())

    assert set(rows_of(card.untrained["weight"])) == buckets(90) - buckets(30)
    assert set(rows_of(card.idle["weight"])) == set(range(32)) - buckets(90)
    same = {
        encoding.bucket(-torch.arange(90))[n].item() in buckets(30) for n in card.unseen.nonzero()
    }
    assert same == {False}


def test_what_is_shared_by_all_distances_is_trained() -> None:
    for encoding in (pe.KERPLE(4), pe.ALiBi(4, learned=True), pe.LearnedRotary(8)):
        card = measure.budget(encoding, 8, 40)
        assert not any(mask.any() for mask in card.untrained.values())
        assert card.unseen.tolist() == [False] * 8 + [True] * 32
    # Only the first two queries stand before the threshold, and tell it what to be.
    fire = measure.budget(pe.FIRE(4, initial_threshold=1.5), 8, 40)
    assert not fire.idle["multiplier"].any()
    assert not fire.untrained["multiplier"].any()
    shaw = measure.budget(pe.Shaw(8, clip=4), 8, 40)
    assert not shaw.unseen.any()
    # Causal: the rows of the future are for nobody.
    assert rows_of(shaw.idle["keys_weight"]) == rows_of(shaw.idle["values_weight"]) == [5, 6, 7, 8]
    assert not measure.budget(pe.Shaw(8, clip=4), 8, 40, causal=False).idle["keys_weight"].any()


def test_counts_of_content_reach_as_far_as_the_text() -> None:
    card = measure.budget(pe.CoPE(16, max_position=24), 8, 16)
    assert card.said_of == "content"
    untrained = card.untrained["weight"].any(dim=-1)[0].nonzero().flatten().tolist()
    assert untrained == list(range(9, 17))


def test_pairs_that_turned_less_than_once() -> None:
    plain, length = pe.Rotary(32), 64
    card = measure.budget(plain, length, 4 * length)
    turned = plain.frequencies() * 63 / (2 * math.pi)
    assert card.turns is not None
    assert card.new_angles is not None
    exact(card.turns[0], turned)
    assert torch.equal(card.new_angles[0], turned < 1)
    short = int((turned < 1).sum())
    assert f"{short} of 16 pairs turn less than once in training, {short} meet new" in str(card)


def test_what_scalings_are_for() -> None:
    """Interpolation brings no new angles; NTK does; zones bring none either."""
    plain = pe.Rotary(32)

    def new(encoding: Encoding) -> int:
        card = measure.budget(encoding, 64, 256, trained=plain)
        assert card.new_angles is not None
        return int(card.new_angles.sum())

    assert new(plain) > new(pe.Rotary(32, scaling=pe.NTK(4.0))) > 0
    assert new(pe.Rotary(32, scaling=pe.Linear(4.0))) == 0
    assert new(pe.Rotary(32, scaling=pe.YaRN(4.0, 64, ramp="paper"))) == 0
    assert new(pe.ReRoPE(32, window=32)) == new(pe.LMInfinite(32, window=64)) == 0
    assert not measure.budget(pe.ReRoPE(32, window=32), 64, 256, trained=plain).unseen.any()


def test_distances_that_tokens_see() -> None:
    assert measure.budget(pe.SlidingWindow(5), 16, 32).largest_distance == 4
    card = measure.budget(pe.NoPE(), 16, 32)
    assert (card.parameters, card.said_of) == (0, "content")
    assert not card.unseen.any()
    assert measure.budget(pe.Sinusoidal(8), 1, 1).largest_distance == 0


def test_every_layer_of_floater_is_trained() -> None:
    card = measure.budget(pe.FLOATER(8, 12, layers=2), 6, 12)
    assert not any(mask.any() for mask in (card.untrained | card.idle).values())


def test_what_is_frozen_is_not_trained() -> None:
    """FoPE's mixtures are drawn once, and stay."""
    assert measure.budget(pe.FoPE(16, 8), 8, 16).parameters == 0
    pope = pe.PoPE(8, 2)
    trained = measure.budget(pope, 8, 16).parameters
    assert trained > 0
    assert measure.budget(pope.requires_grad_(False), 8, 16).parameters == 0


def test_lengths_of_a_budget() -> None:
    for trained, length in ((0, 4), (8, 4)):
        with pytest.raises(SettingError, match="1 <= train_length <= length"):
            measure.budget(pe.NoPE(), trained, length)


@pytest.mark.parametrize("kind", pe.encodings().values(), ids=lambda kind: kind.name)
def test_every_encoding_has_a_card_and_keeps_its_weights(kind: type[Encoding]) -> None:
    for example in kind.examples():
        before = [parameter.clone() for parameter in example.parameters()]
        card = measure.budget(example, 4, 9)
        assert str(card)
        assert card.unseen.shape == (9,)
        for parameter, was in zip(example.parameters(), before, strict=True):
            assert torch.equal(parameter, was)
            assert parameter.grad is None
            assert parameter.dtype == was.dtype
