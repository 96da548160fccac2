"""Names with settings in brackets, as people type them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import posenc as pe
from posenc.errors import SettingError, UnknownNameError
from posenc.lab.config import RunConfig
from posenc.lab.encodings import made, named
from posenc.lab.model import settings_of
from posenc.lab.spelling import spelled, split

SIZES = {"model_dim": 32, "heads": 4, "max_length": 64, "train_length": 16}


def test_settings_are_plain_values() -> None:
    assert spelled("copy") == ("copy", {})
    assert spelled(" t5 ( max_distance = 16, buckets=8 ) ") == (
        "t5",
        {"max_distance": 16, "buckets": 8},
    )
    found = spelled("a(x=-1.5, y='half', z=(1, 2), n=None, b=True)").settings
    assert found == {"x": -1.5, "y": "half", "z": (1, 2), "n": None, "b": True}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "()",
        "t5(",
        "t5)",
        "t5(8)",
        "t5(**{})",
        "t5(x=1, x=2)",
        "t5(x=" + "-" * 100_000 + "1)",
        "t5(x=y)",
        "t5(x=open('f'))",
        "t5(x=().__class__)",
        "t5(x=[i for i in (1,)])",
        "t5(x=1)(y=2)",
        "a, b",
    ],
)
def test_nothing_else_is_taken(text: str) -> None:
    with pytest.raises(SettingError, match=re.escape(repr(text))):
        spelled(text)


def test_brackets_keep_their_commas() -> None:
    assert split("rotary, t5(max_distance=16, buckets=8),none,", ",") == [
        "rotary",
        "t5(max_distance=16, buckets=8)",
        "none",
    ]
    assert split("window(width=8) + alibi", "+") == ["window(width=8)", "alibi"]


def test_encodings_are_made_with_the_settings_typed_and_those_that_suit() -> None:
    (t5,) = made("T5(buckets=8, max_distance=12)", **SIZES)
    assert t5.settings() == pe.T5Bias(4, buckets=8, max_distance=12).settings()
    (rotary,) = made("rope(scaling=NTK(4))", **SIZES)
    assert rotary.settings() == pe.Rotary(8, scaling=pe.NTK(4)).settings()
    window, alibi = made("window(width=8) + alibi", **SIZES)
    assert (type(window), type(alibi)) == (pe.SlidingWindow, pe.ALiBi)
    assert window.settings()["width"] == 8


def test_one_encoding_has_one_name() -> None:
    assert named("RoPE") == "rotary"
    assert named("RoPE(base=500)+swa( width=8 )") == "rotary(base=500) + window( width=8 )"
    assert named("my.package:Own") == "my.package:Own"


def test_what_there_is_not_is_named() -> None:
    with pytest.raises(UnknownNameError, match="widht"):
        made("window(widht=8)", **SIZES)
    with pytest.raises(SettingError, match=r"Yarn is not known here; there are .*YaRN"):
        made("rotary(scaling=Yarn(4))", **SIZES)
    with pytest.raises(SettingError, match="YaRN"):
        made("rotary(scaling=YaRN())", **SIZES)
    with pytest.raises(SettingError, match="without a name"):
        made(" + ", **SIZES)


def test_other_code_of_an_own_encoding_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    base, own = tmp_path / "lab_base.py", tmp_path / "lab_own.py"
    base.write_text("import posenc as pe\nclass Base(pe.Rotary):\n    pass\n")
    own.write_text("from lab_base import Base\nclass Own(Base):\n    pass\n")
    config = RunConfig("lab_own:Own + alibi", task="copy", train_length=6, test_lengths=(6,))
    before = settings_of(config)
    assert re.search(r"inside=\w+.*\) of lab_base.py \w{8} of lab_own.py \w{8}$", before), before
    assert settings_of(config) == before
    base.write_text(base.read_text() + "    weight = 2.0\n")
    after = settings_of(config)
    assert after != before
    assert replace(config, settings=after).run_id != replace(config, settings=before).run_id
    # Of posenc's own the version tells.
    assert " of " not in settings_of(replace(config, encoding="rotary + alibi"))
