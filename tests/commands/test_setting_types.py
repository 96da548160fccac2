"""Settings of every encoding with values of every wrong kind: one clear line, never a traceback."""

import inspect
from collections.abc import Sequence

import pytest
import torch
from typer.testing import CliRunner

import posenc as pe
from posenc.commands import app
from posenc.commands.setting_types import WRITTEN
from posenc.commands.settings import build, parse
from posenc.encodings.scaling import DynamicNTK, Scaling
from posenc.errors import PosencError, SettingError

SETTINGS = [
    (name, setting)
    for name, kind in pe.encodings().items()
    for setting in inspect.signature(kind).parameters
]
WRONG = (
    "abc", "旋转", "", "-1", "0", "1.5", "3", "nan", "1e999", "500000", "10**30",
    "99999999999999999999999", "()", "('a',)", "(1, 2)", "{}", "b'x'", "1j", "True", "None",
    "YaRN(4, 4096)", "rope(16)",
)  # fmt: skip


@pytest.mark.unchecked
@pytest.mark.parametrize(("name", "setting"), SETTINGS, ids=lambda value: value)
def test_no_value_leaks_what_python_says_of_it(name: str, setting: str) -> None:
    for value in WRONG:
        try:
            build(pe.encodings()[name], parse([f"{setting}={value}"]))
        except PosencError as error:
            said = str(error)
            assert "Error:" not in said, value
            assert "\n" not in said, value
            # What the encoding itself says may be of its own setting that stands beside this one.
            assert pe.encodings()[name].__name__ in said or "scaling or encoding" in said, value


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("alibi heads=abc", "ALiBi(heads='abc'): heads must be a whole number"),
        ("alibi heads=True", "heads must be a whole number"),
        ("alibi slopes=1", "'press' or 'geometric' or finite numbers in brackets, as in (1, 2.5)"),
        ("rotary dim=", "Rotary(dim=''): dim must be a whole number"),
        ("rotary base=nan", "Rotary(base='nan'): base must be a finite number"),
        ("rotary base=1e999", "Rotary(base=inf): base must be a finite number"),
        ("rotary layout=neox", "layout must be 'half' or 'interleaved'"),
        ("t5 bidirectional=yes", "bidirectional must be True or False"),
        ("learned max_length=99999999999999999999", "below 2**62"),
        ("learned max_length=99999999", "at most 67,108,864 are made"),
        ("floater layers=500000", "layers=500000: figures show at most 16384"),
        ("sinks rotary=rope", "rotary must be an encoding, as in Rotary(16) or None"),
        ("deberta terms=(1,2)", "terms must be words in brackets, as in ('one', 'two')"),
        ("rotary scaling=YaRN('a',2)", "YaRN(factor='a'): factor must be a finite number"),
        ("rotary scaling=YaRN()", "missing a required argument: 'factor'; it takes factor, orig"),
        ("rotary scaling=NTK(2,3)", "too many positional arguments; it takes factor"),
        ("rotary scaling=yarn", "written with its settings, as in 'scaling=YaRN(4, 4096)'"),
        ("rotary scaling=Linear", "written with its settings, as in 'scaling=Linear(4)'"),
        ("rotary scaling=yern", "as in 'scaling=Linear(4)' or 'scaling=NTK(4)' or"),
        ("rotary scaling=7", "Rotary(scaling=7): a scaling is written with its settings"),
    ],
)
def test_it_says_what_to_type(words: str, said: str) -> None:
    ended = CliRunner().invoke(app, ["show", *words.split()])
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert said in ended.stderr


def test_each_scaling_can_be_typed_as_it_is_told() -> None:
    made = [parse([f"scaling={written}"])["scaling"] for written in WRITTEN]
    assert {type(each) for each in made} == {*Scaling.__subclasses__(), DynamicNTK}
    for scaling in made:
        assert pe.Rotary(8, scaling=scaling).scaling is scaling


def test_whole_numbers_stand_for_numbers() -> None:
    assert build(pe.FIRE, parse(["initial_c=3"])).c.item() == 3.0


def test_a_strangers_own_annotations_refuse_nothing() -> None:
    class Mine(pe.NoPE):
        def __init__(self, word: "NoSuchType" = 0) -> None:
            super().__init__()
            self.word = word

    assert build(Mine, {"word": "any"}).settings() == {"word": "any"}


@pytest.mark.unchecked
def test_strangers_types_are_held_to_as_far_as_they_can_be_typed() -> None:
    class Mine(pe.NoPE):
        def __init__(
            self,
            pair: tuple[int, str] = (1, "a"),
            weights: torch.Tensor | None = None,
            words: Sequence[dict[str, int]] = (),
        ) -> None:
            super().__init__()
            self.pair, self.weights, self.words = pair, weights, words

    for setting in ("pair=(3,'b')", "words=[{'a':1}]", "words=7"):
        assert build(Mine, parse([setting]))
    with pytest.raises(SettingError, match=r"Mine\(weights='abc'\): weights must be None"):
        build(Mine, parse(["weights=abc"]))
