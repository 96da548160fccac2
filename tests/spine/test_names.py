"""Encodings by the names that people type: the catalogue's, classes', and the literature's."""

import pytest

import posenc as pe
from posenc.catalogue import ALIASES, canonical, find
from posenc.commands.settings import parse
from posenc.errors import UnknownNameError


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("rope", "rotary"), ("RoPE", "rotary"), ("RoFormer", "rotary"),
        ("sinusoid", "sinusoidal"), ("sincos", "sinusoidal"), ("RPR", "shaw"),
        ("t5_bias", "t5"), ("T5Bias", "t5"), ("nope", "none"), ("SWA", "window"),
        ("sliding_window", "window"), ("StreamingLLM", "sinks"), ("Self-Extend", "self_extend"),
        ("transformer xl", "transformer_xl"), ("2D-RoPE", "axial"), ("logn", "temperature"),
    ],
)  # fmt: skip
def test_what_people_type_is_found(typed: str, name: str) -> None:
    assert find(typed) is pe.encodings()[name]
    assert canonical(typed) == name


def test_an_alias_hides_no_other_name() -> None:
    names = dict(pe.encodings())
    names |= {kind.__name__: kind for kind in pe.encodings().values()}
    names |= {alias: names[own] for own, others in ALIASES.items() for alias in others}
    assert all(find(name) is kind for name, kind in names.items())


def test_settings_take_the_same_names() -> None:
    (rotary,) = parse(["rotary=RoPE(16)"]).values()
    assert repr(rotary) == repr(pe.Rotary(16))
    assert repr(pe.make("rope", model_dim=64, heads=4)) == repr(pe.Rotary(16))


@pytest.mark.parametrize(
    ("typed", "meant"), [("rotery", "'rotary'"), ("sinusodal", "'sinusoidal'"), ("rop", "'rope'")]
)
def test_a_typo_is_answered_with_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean {meant}") as raised:
        find(typed)
    assert "known are alibi, axial" in str(raised.value)
    assert " rope," not in str(raised.value)


@pytest.mark.parametrize(
    "typed",
    ["", "旋转", "-", "deberta_v2", "nezha", "longlora", "absolute", "relative", "PE", "rpe"],
)
def test_what_is_no_name_of_one_encoding_is_none(typed: str) -> None:
    with pytest.raises(UnknownNameError):
        find(typed)
