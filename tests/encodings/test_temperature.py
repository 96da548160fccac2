"""Temperature: how much scores grow, kind by kind, and which settings belong to which."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Encoding, Positions, Temperature, Tokens, attend, scores
from posenc.errors import SettingError
from tests.support.oracles import drawing


def growth(encoding: Encoding, positions: Tensor) -> Tensor:
    """What scores are multiplied by at these positions."""
    q = torch.ones(1, 1, len(positions), 2, dtype=torch.float64)
    return scores(q, q[:, :, :1], encoding, positions=at(positions), scale=0.5)[0, 0, :, 0]


def at(queries: Tensor) -> Positions:
    """Queries at these positions, and one key."""
    return Positions(Tokens(queries), Tokens(queries[:1]))


def test_log_n_grows_beyond_the_training_length_only() -> None:
    found = growth(Temperature("log_n", original_length=100), torch.tensor([0, 50, 99, 999, 9_999]))
    torch.testing.assert_close(found, torch.tensor([1, 1, 1, 1.5, 2], dtype=torch.float64))


@pytest.mark.parametrize(
    ("kind", "length", "first"), [("llama4", 8_192, 8_191), ("ministral", 16_384, 16_384)]
)
def test_steps_begin_where_the_models_begin_them(kind: str, length: int, first: int) -> None:
    made = Temperature(kind)
    assert (made.original_length, made.strength, made.factor) == (length, 0.1, None)
    before, after, second = growth(made, torch.tensor([first - 1, first, first + length])).tolist()
    assert before == 1
    assert after == pytest.approx(1 + 0.1 * math.log(2), abs=1e-15)
    assert second == pytest.approx(1 + 0.1 * math.log(3), abs=1e-15)


def test_yarn_is_what_its_scaling_does_to_cos_and_sin() -> None:
    draw = drawing(1)
    q, k = draw(1, 2, 5, 8), draw(1, 2, 9, 8)
    yarn = pe.YaRN(8.0, original_length=4)
    expected = scores(q, k, pe.Rotary(8, scaling=yarn))
    bare = pe.Rotary(8, scaling=pe.YaRN(8.0, original_length=4, attention_factor=1.0))
    torch.testing.assert_close(scores(q, k, [bare, Temperature("yarn", factor=8.0)]), expected)
    # YaRN's temperature is one number and reads no positions.
    place = Positions.build(ids=torch.zeros(1, 9, 3).long(), causal=False)
    found = pe.lower(Temperature("yarn", factor=8.0), place).terms
    assert [term.factor for term in found] == [pytest.approx((0.1 * math.log(8) + 1) ** 2)]
    with pytest.raises(pe.PositionsError, match=r"Temperature reads one coordinate.*\(1, 9, 3\)"):
        pe.lower(Temperature("llama4"), place)


def test_biases_do_not_grow() -> None:
    draw = drawing(2)
    q, k = draw(1, 4, 7, 8), draw(1, 4, 7, 8)
    made = Temperature("log_n", original_length=2)
    found = scores(q, k, [pe.ALiBi(4), made], causal=True)
    content = scores(q, k, made, causal=True)
    bias = scores(torch.zeros_like(q), k, pe.ALiBi(4), causal=True)
    torch.testing.assert_close(found, content + bias)


def test_it_goes_with_rerope_as_its_author_uses_it() -> None:
    draw = drawing(3)
    q, k, v = (draw(1, 2, 12, 8) for _ in "qkv")
    made, rerope = Temperature("log_n", original_length=4), pe.ReRoPE(8, window=3)
    grown = q * growth(made, torch.arange(12))[:, None]
    expected = attend(grown, k, v, rerope, causal=True)
    torch.testing.assert_close(attend(q, k, v, [rerope, made], causal=True), expected)


def test_packed_documents_begin_anew() -> None:
    made = Temperature("llama4", original_length=2)
    (term,) = pe.lower(made, Positions.build(lengths=[3, 4])).terms
    alone = [pe.lower(made, Positions.build(n)).terms[0].factor for n in (3, 4)]
    assert torch.equal(term.factor, torch.cat(alone, dim=-1))


BAD: dict[str, Callable[[], Encoding]] = {
    "kind='ssmax'.*'llama4', 'ministral' or 'inkling'": lambda: Temperature("ssmax"),
    "'log_n'.*missing.*original_length": lambda: Temperature("log_n"),
    "'yarn'.*missing.*factor": lambda: Temperature("yarn"),
    "'yarn'.*unexpected.*original_length": lambda: Temperature("yarn", 64, factor=2.0),
    "'log_n'.*unexpected.*strength": lambda: Temperature("log_n", 64, strength=0.1),
    "'llama4'.*unexpected.*factor": lambda: Temperature("llama4", factor=2.0),
    "original_length=1.*whole number.*2 or more": lambda: Temperature("log_n", 1),
    "original_length=0.*2 or more": lambda: Temperature("ministral", 0),
    "factor=0.5.*at least 1": lambda: Temperature("yarn", factor=0.5),
    "factor=nan.*at least 1": lambda: Temperature("yarn", factor=math.nan),
    "strength=-0.1.*greater than 0": lambda: Temperature("llama4", strength=-0.1),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("said", BAD)
def test_settings_that_do_not_belong_to_the_kind(said: str) -> None:
    with pytest.raises(SettingError, match=said):
        BAD[said]()
