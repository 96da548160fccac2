"""What `posenc show` says in the terminal itself: the call, other names, and a curve in braille."""

import dataclasses
import math
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import posenc as pe
from posenc.analysis import measure
from posenc.chinese import described
from posenc.commands import app
from posenc.commands.braille import BLANK, DOTS, braille
from posenc.commands.signature import signature
from posenc.commands.sketch import sketch

# Circulants pass the mean, which is all that ones have.
FLAT = ("circulant_string", "cope", "none", "rotary_values", "sink_logits", "sinks")


def show(*words: str) -> str:
    ended = CliRunner().invoke(app, ["show", *words])
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout


def dots(lines: Sequence[str]) -> list[set[int]]:
    """Of every column how far below the top its dots lie."""
    columns: list[set[int]] = []
    for column in range(2 * len(lines[0])):
        bits = [(ord(line[column // 2]) - BLANK, DOTS[column % 2]) for line in lines]
        columns.append(
            {4 * row + i for row, (cell, rows) in enumerate(bits) for i in range(4)
             if cell & rows[i]}
        )  # fmt: skip
    return columns


class TestBraille:
    def test_the_largest_value_is_at_the_top_and_the_least_at_the_bottom(self) -> None:
        assert dots(braille([3.0, 3.0, -1.0, -1.0], 2)) == [{0}, {0, 1, 2, 3}, {4, 5, 6, 7}, {7}]

    @pytest.mark.parametrize("steps", range(1, 8))
    def test_neighbours_are_joined_without_a_hole(self, steps: int) -> None:
        values = [0.0, steps / 7, math.nan, 1.0, 0.0]
        low, high, _, *_ = dots(braille(values, 2))
        assert low | high == {7 - step for step in range(steps + 1)}
        assert not low & high

    def test_what_is_not_finite_is_a_gap_that_joins_nothing(self) -> None:
        assert dots(braille([1.0, -math.inf, 0.0, math.nan], 1)) == [{0}, set(), {3}, set()]
        assert braille([math.nan] * 3, 1) == [chr(BLANK) * 2]

    def test_a_wave_is_where_its_values_are(self) -> None:
        values = [math.cos(x / 9) for x in range(100)]
        for value, found in zip(values, dots(braille(values, 6)), strict=True):
            assert round((1 - value) / 2 * 23) in {d + off for d in found for off in (-1, 0, 1)}


class TestSketch:
    @pytest.mark.parametrize("name", pe.encodings())
    def test_every_encoding_that_is_not_the_same_everywhere_has_a_curve(self, name: str) -> None:
        shown = show(name)
        assert any(BLANK < ord(letter) < BLANK + 256 for letter in shown) == (name not in FLAT)
        assert max(map(len, shown.splitlines())) < 400

    def test_rotary_shows_its_score_by_distance(self) -> None:
        name, *lines, axis = sketch(pe.Rotary(64), 100)
        curve = measure.score_curve(pe.Rotary(64), 100)[0]
        assert name == "score of q = k = ones in head 0, by how many tokens back the key is"
        assert [lines[0].split()[0], lines[-1].split()[0]] == [
            f"{curve.max():.4g}", f"{curve.min():.4g}"
        ]  # fmt: skip
        drawn = [line[13:].ljust(50, chr(BLANK)) for line in lines]
        assert drawn == braille(curve.tolist(), 6)
        assert axis.split() == ["0", "99"]

    def test_an_absolute_one_shows_its_first_waves(self) -> None:
        lines = list(sketch(pe.Sinusoidal(8), 64))
        assert [line for line in lines if "dimension" in line] == [
            f"dimension {column}, by position" for column in (0, 2, 4)
        ]

    def test_a_window_shows_where_it_hides(self) -> None:
        name, line, _ = sketch(pe.SlidingWindow(6), 64)
        assert name.endswith("a gap where it is hidden")
        assert [bool(column) for column in dots([line[13:].ljust(32, chr(BLANK))])] == (
            [True] * 6 + [False] * 58
        )

    def test_length_head_and_settings_reach_it(self) -> None:
        assert " 31\n" in show("rope", "--length", "32")
        assert "in head 2," in show("alibi", "heads=4", "--head", "2")
        assert "-3.9" in "".join(sketch(pe.ALiBi(1, slopes=(0.1,)), 120))

    def test_what_cannot_be_sketched_is_told_in_words(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "unsketched.py").write_text(
            "import posenc as pe\n"
            "class Mine(pe.NoPE):\n"
            "    'My own.'\n"
            "    def lower(self, positions, context=None, *, dtype=None): raise KeyError('angle')\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        assert "My own." in show("unsketched:Mine")

    @pytest.mark.parametrize(
        "words", ["coordinates dim=16 axes=3", "liere axes=2", "axial grid=None"]
    )
    def test_settings_of_what_no_row_of_tokens_can_show_are_told_in_words(self, words: str) -> None:
        assert "with these settings" in show(*words.split())

    @pytest.mark.parametrize(
        ("words", "said"),
        [("t5 --head 4", "head=4"), ("rope --length 999", "length=999"), ("t5 --head -1", "-1")],
    )
    def test_what_is_out_of_reach_is_refused(self, words: str, said: str) -> None:
        ended = CliRunner().invoke(app, ["show", *words.split()])
        assert (ended.exit_code, ended.stdout) == (2, "")
        assert said in ended.stderr

    def test_a_terminal_without_such_letters_gets_plain_words(self) -> None:
        program = (
            "import sys; sys.argv = ['posenc', 'show', 'alibi', '--lang', 'zh']\n"
            "from posenc.cli import main; main()"
        )
        ended = subprocess.run(
            [sys.executable, "-X", "utf8=0", "-c", program],
            capture_output=True, text=True, env={"PYTHONIOENCODING": "ascii", "PATH": ""},
            cwd=".",
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        assert "ALiBi(heads: int" in ended.stdout
        assert "score of q" not in ended.stdout


class TestWords:
    def test_no_type_is_shown_with_its_module(self) -> None:
        for kind in pe.encodings().values():
            called = signature(kind)
            assert not re.search(r"\w\.\w*[a-zA-Z]", called.replace("...", "")), called
            assert all(len(line) <= 105 for line in called.splitlines())

    @pytest.mark.parametrize(
        ("kind", "written"),
        [
            (pe.Rotary, "scaling: Scaling | None = None, start: int = 0)"),
            (pe.ALiBi, "slopes: Literal['press', 'geometric'] | Sequence[float] = 'press',\n"),
            (pe.DeBERTa, "*,\n        head_dim: int | None = None, terms: tuple[str, ...] = ("),
        ],
    )
    def test_types_are_written_as_by_hand(self, kind: type, written: str) -> None:
        assert written in signature(kind)

    def test_a_strangers_types_are_shown_too(self) -> None:
        class Mine(pe.NoPE):
            def __init__(
                self, one, two: "Later" = 1, *rest: int, f: Callable[[torch.Tensor], int] = abs
            ) -> None: ...

        assert signature(Mine) == (
            "Mine(one, two: Later = 1, *rest: int, "
            "f: Callable[[Tensor], int] = <built-in function abs>)"
        )

    def test_chinese_is_spoken(self) -> None:
        shown = show("rope", "--language", "zh")
        assert described(pe.Rotary) in shown
        for words in (
            "也叫 rope",
            "第 0 个头的得分",
            "\n标签\n",
            "\n例子\n",
            "画图：posenc show rotary",
        ):
            assert words in shown

    def test_chinese_has_the_same_numbers_and_the_same_tags(self) -> None:
        for name in pe.encodings():
            claims = [
                re.findall(r"^    (\w+) +(True|False) ", show(name, "--lang", language), re.M)
                for language in ("en", "zh")
            ]
            assert claims[0] == claims[1]
            assert len(claims[0]) == len(dataclasses.fields(pe.Tags))

    def test_the_environment_chooses_a_language(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("POSENC_LANGUAGE", "zh")
        assert "画图：" in show("t5")
        assert "figures: " in show("t5", "--language", "en")

    def test_other_names_are_told(self) -> None:
        assert "\nalso called rope, roformer\n" in show("rotary")


def test_the_list_goes_by_kind() -> None:
    shown = CliRunner().invoke(app, ["list"]).stdout
    parts = [part.splitlines() for part in shown.split("\n\n")]
    kinds = {lines[0].partition(":")[0]: lines[1:] for lines in parts}
    assert list(kinds) == ["absolute", "rotary", "bias", "content", "scale", "mask", "none"]
    for kind, lines in kinds.items():
        listed = [line.split()[0] for line in lines if not line.startswith("      ")]
        assert listed == [name for name, cls in pe.encodings().items() if cls.family == kind]
