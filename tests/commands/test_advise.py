"""`posenc advise`: rows for and against, at the ratio that was asked for or the nearest one."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from prose import check_pair, english
from typer.testing import CliRunner

from posenc.analysis.probe_context import context_for, embeds
from posenc.catalogue import make
from posenc.claims import claims
from posenc.claims.advice import LONGEST, Answer, Question, advise, kinds
from posenc.claims.advised import told
from posenc.claims.facts import facts
from posenc.claims.kept import kept
from posenc.claims.words import TEXTS
from posenc.commands import app
from posenc.encoding import Encoding
from posenc.encodings import members
from posenc.errors import PosencError
from posenc.lab.arms import Arm
from posenc.lab.tasks import names
from posenc.lowering import embeds_only, lower
from posenc.positions import Positions
from posenc.words import Words

LENGTHS = (16, 32, 64)
SIZES = {"dim": 32, "heads": 4, "depth": 2, "steps": 9, "learning_rate": 1.0, "train_length": 16}


def arm(encoding: str, *shares: Sequence[float], task: str = "needle", **over: Any) -> Arm:
    """Shares of 1000 right answers of each seed, at 16, 32 and 64."""
    rows = {
        seed: tuple(
            {"kind": "accuracy", "length": n, "examples": 1000, "exact": round(1000 * share)}
            | {"token": share, "chance": 0.0, "loss": 1.0}
            for n, share in zip(LENGTHS, own, strict=True)
        )
        for seed, own in enumerate(shares)
    }
    config = {"encoding": encoding, "task": task, **SIZES}
    return Arm(config, rows, len(rows), 0, ("tried",), **over)


KEEPS = arm("alibi", (1.0, 1.0, 0.98), (1.0, 0.99, 0.97), (1.0, 1.0, 0.99))
LOSES = arm("rotary", (1.0, 0.9, 0.3), (1.0, 0.95, 0.1), (1.0, 1.0, 0.2))
NEVER = arm("none", (0.3, 0.9, 0.9), (0.2, 0.9, 0.9), (0.3, 0.9, 0.9))
FAILED = Arm(LOSES.config | {"encoding": "t5"}, LOSES.rows, 3, 1)


def answer(*known: Arm, target: int = 64, task: str = "recall") -> Answer:
    return advise(Question(16, target, task), known)


def refusal(own: Encoding, at: Positions) -> str:
    """What an encoding raises for these positions."""
    try:
        if embeds(own):
            own.embed(torch.zeros(1, 1, own.model_dim or 1), at)
        if not embeds_only(own):
            lower(own, at, context=context_for(own, at.k_len, batch=1))
    except PosencError as error:
        return str(error)
    return ""


def printed(*options: str) -> str:
    ended = CliRunner().invoke(app, ["advise", *options])
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout


class TestRows:
    def test_they_are_for_or_against_by_whole_intervals(self) -> None:
        found = answer(LOSES, NEVER, KEEPS, FAILED)
        assert [(row.arm.encoding, row.speaks) for row in found.rows] == [
            ("alibi", "for"),
            ("rotary", "against"),
            ("none", "unlearned"),
            ("t5", "failed"),
        ]
        # At twice the length seeds of rotary lie on both sides of what may be lost.
        assert [row.speaks for row in answer(LOSES, target=32).rows] == ["undecided"]

    @pytest.mark.parametrize(("target", "length"), [(16, 16), (20, 16), (30, 32), (6400, 64)])
    def test_the_nearest_ratio_is_taken_and_named(self, target: int, length: int) -> None:
        (row,) = answer(KEEPS, target=target).rows
        assert row.length == length
        assert row.times == length / 16

    @pytest.mark.parametrize(("task", "target"), [("recall", 17), ("recall", 20), ("needle", 22)])
    def test_the_train_length_speaks_of_nothing_beyond(self, task: str, target: int) -> None:
        base = arm("rotary", (1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
        later = arm("window(width=8) + rotary", (0.6, 0.6, 0.6), (0.6, 0.6, 0.6), base=base)
        found = answer(KEEPS, LOSES, later, target=target, task=task)
        assert {(row.length, row.speaks) for row in found.rows} == {(16, "measured")}
        assert {row.speaks for row in answer(KEEPS, later, target=16).rows} == {"for", "against"}

    def test_of_two_as_near_the_longer_speaks(self) -> None:
        farther = Arm(KEEPS.config, {seed: rows[::2] for seed, rows in KEEPS.rows.items()}, 3, 0)
        (row,) = answer(farther, target=32).rows
        assert (row.length, row.speaks) == (64, "for")

    def test_what_was_read_no_farther_than_in_training_has_no_row(self) -> None:
        short = Arm(KEEPS.config, {seed: rows[:1] for seed, rows in KEEPS.rows.items()}, 3, 0)
        assert answer(short, target=32).rows == ()
        assert [row.speaks for row in answer(short, target=16).rows] == ["for"]

    def test_nothing_is_said_of_longer_inputs_where_the_task_was_not_learned(self) -> None:
        (row,) = answer(NEVER).rows
        assert (row.length, row.change) == (16, None)

    def test_weights_of_another_are_compared_with_what_they_were(self) -> None:
        base = arm("rotary", (1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
        # It does not change with the length, for it is as bad everywhere.
        later = arm("window(width=8) + rotary", (0.6, 0.6, 0.6), (0.6, 0.6, 0.6), base=base)
        (row,) = answer(later).rows
        assert row.speaks == "against"
        assert row.change is not None
        assert row.change.mean == pytest.approx(-0.4)

    def test_models_that_were_not_made_here_have_no_size_of_ours(self) -> None:
        # It was never tested at the length that it was trained on.
        config = {"encoding": "own", "task": "needle", "train_length": 128, "steps": 0}
        own = Arm(config | {"model": "a_model"}, LOSES.rows, 3, 0)
        found = answer(own, target=1)
        assert [(row.label, row.speaks) for row in found.rows] == [
            ("own, model=a_model", "measured")
        ]
        text = "\n".join(told(found, Words("en", TEXTS)))
        assert "own, model=a_model, needle, at 16, 0.125 times" in text
        assert "small models" not in text

    def test_a_name_asks_for_one_task_and_a_kind_for_all_of_it(self) -> None:
        other = arm("alibi", (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), task="maximum(classes=3)")
        assert len(answer(KEEPS, other).rows) == 2
        assert [row.arm.task for row in answer(KEEPS, other, task="needle").rows] == ["needle"]
        assert answer(KEEPS, other, task="state").rows == ()

    def test_what_no_row_speaks_of_is_not_known(self) -> None:
        found = answer(arm("window(width=8) + rotary", (1.0, 1.0, 1.0), (1.0, 1.0, 1.0)))
        assert "alibi" in found.unknown
        assert not {"window", "rotary"} & {*found.unknown}
        # What cannot be compared can have no row.
        assert "axial" not in found.unknown


class TestFacts:
    def test_a_table_refuses_what_is_longer(self) -> None:
        learned, rotary = (
            facts(name, 64, 65, dim=32, heads=4, cache=True) for name in ("learned", "rotary")
        )
        assert learned is not None
        assert "max_length >= 65" in learned.refuses
        within = facts("learned", 64, 64, dim=32, heads=4, cache=True)
        assert within is not None
        assert within.refuses == ""
        assert rotary is not None
        assert rotary.refuses == ""

    @pytest.mark.parametrize(
        ("name", "cache", "depends"),
        [
            ("rotary", "rotated", False),
            ("rerope(window=4)", "raw", False),
            ("window(width=4) + rotary", "rotated", False),
            ("rotary(scaling=DynamicNTK(2, 64))", "rotated", True),
        ],
    )
    def test_a_cache_is_told_from_decoding_with_it(
        self, name: str, cache: str, depends: bool
    ) -> None:
        found = facts(name, 64, 512, dim=32, heads=4, cache=True)
        assert found is not None
        assert (found.cache, found.length_dependent) == (cache, depends)

    @pytest.mark.parametrize("name", ["kerple", "sinusoidal", "forget_gate", "t5 + rotary"])
    def test_a_target_takes_no_memory_of_its_length(self, name: str) -> None:
        found = facts(name, 64, LONGEST["target"], dim=32, heads=4, cache=False)
        assert found is not None
        assert found.refuses == ""

    @pytest.mark.parametrize("target", [1, 2, 8, 9, 100])
    def test_every_encoding_refuses_what_it_refuses_of_all_keys(self, target: int) -> None:
        at = Positions.build(q_len=1, k_len=target, causal=True)
        for name in members():
            found = facts(name, 8, target, dim=32, heads=4, cache=False)
            if found is not None:
                own = make(name, model_dim=32, heads=4, max_length=8)
                assert found.refuses == refusal(own, at), name

    def test_what_cannot_be_made_has_none(self) -> None:
        assert facts("rotary(rotary_dim=128)", 64, 64, dim=32, heads=4, cache=True) is None


class TestCommand:
    def test_every_number_is_of_a_result(self) -> None:
        data = json.loads(printed("--train", "64", "--target", "512", "--json"))
        rows = {row["label"]: row for row in data["rows"] if row["task"] == "text"}
        assert rows["alibi"]["speaks"] == "for"
        assert rows["sinusoidal"]["speaks"] == "against"
        found = kept("absolute_breaks")
        assert found is not None
        last = [row[-1]["loss"] for row in found["arms"]["learned"]["rows"].values()]
        assert rows["learned"]["found"]["mean"] == pytest.approx(sum(last) / len(last))
        assert {name for row in data["rows"] for name in row["claims"]} <= {*claims()}
        assert data["facts"]["learned"]["refuses"]
        assert data["question"]["times"] == 8

    def test_a_ratio_that_was_not_measured_is_named_with_the_nearest(self) -> None:
        text = printed("--train", "100", "--target", "1600")
        assert "16 times as long" in text
        assert "8 times the train length (the nearest to 16 that was measured)" in text
        assert re.search(r"small models, of width 32 and 2 layers, trained on \d+\S\d+:", text)
        lines = printed("--train", "100", "--target", "800").splitlines()
        (exact,) = [line for line in lines if line.startswith("  alibi, text, ")]
        assert "at 512, 8 times the train length:" in exact

    def test_a_cache_is_told_where_it_is_asked_for(self) -> None:
        asked = ("--train", "64", "--target", "128")
        assert "decodes with a cache of raw keys" in printed(*asked, "--cache")
        assert "cache" not in printed(*asked)

    def test_chinese_says_the_same(self) -> None:
        asked = ("--train", "10", "--target", "15", "--task", "copy", "--cache")
        ours = printed(*asked, "--language", "zh")
        # What a class raises is in English.
        said = [line for line in ours.splitlines() if "就报错：" not in line]
        assert english("\n".join(said).replace("copy(letters=14)", "")) == []
        assert "复制：训练长度 10，读到 15，是它的 1.5 倍。" in ours
        assert len(ours.splitlines()) == len(printed(*asked).splitlines())

    def test_a_kind_that_was_never_measured_is_said_so(self) -> None:
        data = printed("--train", "8", "--target", "16", "--task", "modular")
        assert "Nothing was measured for modular." in data

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--train", "0", "--target", "8"], "advise --train 0: a length is needed"),
            (["--train", "8", "--target", "-1"], "advise --target -1: a length is needed"),
            (["--train", "8", "--target", "9" * 20], "from 1 token to 1,099,511,627,776"),
            (["--train", "9" * 9, "--target", "8"], "from 1 token to 4,194,304"),
            (["--train", "8", "--target", "8", "--task", "recal"], "did you mean 'recall'"),
            (["--train", "8"], "Missing option '--target'"),
        ],
    )
    def test_wrong_input_is_answered_in_one_line(self, options: list[str], message: str) -> None:
        ended = CliRunner().invoke(app, ["advise", *options])
        assert ended.exit_code == 2
        assert message in ended.stderr
        assert len(ended.stderr.splitlines()) == 1


def test_every_task_is_of_a_kind_that_has_words() -> None:
    assert {task for own in kinds().values() for task in own} == {*names()}
    help_ = CliRunner().invoke(app, ["advise", "--help"]).stdout
    for kind in kinds():
        check_pair(*TEXTS[f"kind_{kind}"])
        assert kind in help_
