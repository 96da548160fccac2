"""`extend --tune` from end to end: rows beside rows, weights that are kept, refusals."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from extend_models import byte_tokenizer, some_text
from typer.testing import CliRunner

from posenc.commands import app
from posenc.errors import UnsupportedError
from posenc.extend.cells import Cell, Lengths, plan
from posenc.extend.forward import score
from posenc.extend.material import Material
from posenc.extend.options import MEASURES, Options
from posenc.extend.page import page
from posenc.extend.run import extend
from posenc.extend.tune import tuner as tuners
from posenc.extend.tune.settings import Tuning
from posenc.extend.words import TEXTS
from posenc.extend.work import Work
from posenc.models.loading import load_model
from posenc.words import Words

run = CliRunner().invoke
TUNED = "yarn (tuned 12 steps)"


@pytest.fixture
def given(options: Options) -> Options:
    tuning = Tuning(12, length=32, rate=0.02)
    return replace(options, methods=("none", "yarn", "dynamic"), measures=("short",), tuning=tuning)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often anything is trained from here on."""
    counts: Counter[str] = Counter()
    train = tuners.train

    def counted(*arguments: Any) -> Any:
        counts["train"] += 1
        return train(*arguments)

    monkeypatch.setattr(tuners, "train", counted)
    return counts


def quietly(options: Options) -> dict[str, Any]:
    return extend(options, lambda line: None).data


def losses(data: dict[str, Any]) -> dict[str, Any]:
    return {name: one["short"]["spans"] for name, one in data["methods"].items()}


def test_a_tuned_row_is_measured_as_the_one_beside_it() -> None:
    lengths = Lengths(64, (128, 256))
    cells = plan(("none", "yarn"), MEASURES, lengths, 2, 2, {"yarn": 12})
    assert len(set(cells)) == len(cells)
    tuned = {replace(cell, steps=0) for cell in cells if cell.steps}
    assert tuned == {cell for cell in cells if cell.method == "yarn" and not cell.steps}


def test_tuned_rows_stand_beside_the_others(given: Options) -> None:
    plain = losses(quietly(replace(given, tuning=None, out=given.out / "plain")))
    data = quietly(given)
    found = losses(data)
    assert list(found) == ["none", "none (tuned 12 steps)", "yarn", TUNED, "dynamic"]
    assert {name: found[name] for name in plain} == plain
    mean = {name: one["short"]["mean"] for name, one in data["methods"].items()}
    assert mean[TUNED] < mean["yarn"] - 0.02
    assert mean[TUNED] != mean["none (tuned 12 steps)"]
    course = data["methods"][TUNED]["tuning"]
    assert course["last"] < course["first"]
    assert (course["steps"], course["length"], course["rank"]) == (12, 32, 8)
    assert "dynamic (tuned 12 steps)" in data["unavailable"]
    html = str(page(data, Words("en", TEXTS)))
    assert f">{TUNED}</th>" in html
    assert f"{course['first']:.3f}" in html
    assert course["file"] in html
    assert (given.out / course["file"]).exists()


def test_the_same_command_gives_the_same_numbers_and_another_seed_others(given: Options) -> None:
    first = losses(quietly(given))
    torch.manual_seed(5)
    assert losses(quietly(replace(given, out=given.out / "again"))) == first
    other = losses(quietly(replace(given, seed=1)))
    assert other[TUNED] != first[TUNED]
    assert other["yarn"] == first["yarn"]


def test_what_was_trained_is_not_trained_again(given: Options, trainings: Counter[str]) -> None:
    first = quietly(given)
    assert trainings["train"] == 2
    assert quietly(given) == first
    quietly(replace(given, measures=("short", "windows"), spans=2))
    assert trainings["train"] == 2
    quietly(replace(given, methods=("none", "yarn", "linear")))
    assert trainings["train"] == 3
    (given.out / first["methods"][TUNED]["tuning"]["file"]).write_bytes(b"torn")
    again = quietly(given)
    assert trainings["train"] == 4
    assert losses(again) == losses(first)


@pytest.mark.parametrize(
    "change",
    [
        lambda tuning: replace(tuning, steps=13),
        lambda tuning: replace(tuning, length=40),
        lambda tuning: replace(tuning, rate=0.01),
        lambda tuning: replace(tuning, rank=4),
        lambda tuning: replace(tuning, rank=None),
    ],
)
def test_other_settings_are_other_cells(
    change: Callable[[Tuning], Tuning], given: Options, trainings: Counter[str]
) -> None:
    few = replace(given, methods=("yarn",))
    first = losses(quietly(few))
    other = losses(quietly(replace(few, tuning=change(Tuning(12, length=32, rate=0.02)))))
    assert trainings["train"] == 2
    plain, tuned = other.values()
    assert plain == first["yarn"]
    assert tuned != first[TUNED]


# peft 0.21 reads an attribute that transformers calls by another name.
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_what_is_kept_is_an_adapter_for_peft_and_the_written_config(given: Options) -> None:
    from peft import PeftModel
    from transformers import AutoConfig, AutoModelForCausalLM

    data = quietly(replace(given, write="yarn"))
    told = data["methods"][TUNED]
    config = AutoConfig.from_pretrained(given.out / "config.json")
    model = AutoModelForCausalLM.from_pretrained(given.model, config=config)
    adapter = (given.out / told["tuning"]["file"]).parent
    model = PeftModel.from_pretrained(model, adapter).eval()
    material = Material.of(byte_tokenizer(), some_text(), given.spans, max(given.to))
    spans = [material.span(index, data["short"]) for index in range(given.spans)]
    found = {str(i): score(model, ids).loss.mean().item() for i, ids in enumerate(spans)}
    assert found == pytest.approx(told["short"]["spans"], abs=1e-4)
    assert found != pytest.approx(losses(data)["yarn"], abs=1e-2)


def test_lora_needs_peft_and_full_weights_do_not(
    given: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UnsupportedError, match=r'peft.*pip install -e "\.\[models\]".*full'):
        quietly(given)
    assert not given.out.exists()
    full = quietly(replace(given, methods=("yarn",), tuning=Tuning(2, length=32, rank=None)))
    assert full["methods"]["yarn (tuned 2 steps)"]["tuning"]["file"].endswith(".safetensors")


@pytest.mark.parametrize("rank", [8, None])
def test_the_model_has_its_own_weights_for_every_other_cell(
    rank: int | None, given: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Cell, dict[str, torch.Tensor]]] = []
    measure = Work.measure

    def keeping(work: Work, cell: Cell) -> dict[str, Any]:
        model = work.subject.model
        seen.append((cell, {name: x.clone() for name, x in model.state_dict().items()}))
        return measure(work, cell)

    monkeypatch.setattr(Work, "measure", keeping)
    quietly(replace(given, methods=("yarn", "none"), tuning=Tuning(5, length=32, rank=rank)))
    own = load_model(given.model).model.state_dict()
    assert {cell.steps for cell, _ in seen} == {0, 5}
    for _, weights in seen:
        assert weights.keys() == own.keys()
        assert all(torch.equal(weights[name], own[name]) for name in own)


def test_ctrl_c_in_training_keeps_the_methods_that_are_done(
    given: Options, trainings: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = tuners.train

    def interrupted(*arguments: Any) -> Any:
        if trainings["train"] == 1:
            raise KeyboardInterrupt
        return counted(*arguments)

    monkeypatch.setattr(tuners, "train", interrupted)
    outcome = extend(given, lambda line: None)
    assert outcome.interrupted
    assert outcome.data["methods"]["none (tuned 12 steps)"]["tuning"] is not None
    assert outcome.data["methods"][TUNED]["tuning"] is None
    monkeypatch.setattr(tuners, "train", counted)
    assert quietly(given)["done"] == outcome.data["planned"]
    assert trainings["train"] == 2


def test_a_method_whose_training_breaks_down_is_told_and_the_others_measured(
    given: Options,
) -> None:
    # All weights, for norms bound what LoRA's can do.
    tuning = Tuning(9, length=32, rate=1e36, rank=None)
    outcome = extend(replace(given, tuning=tuning), lambda line: None)
    assert "lower --tune-lr" in outcome.failed["yarn (tuned 9 steps)"]
    assert outcome.data["methods"]["yarn"]["short"]["mean"] is not None
    assert outcome.data["methods"]["yarn (tuned 9 steps)"]["short"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tune", "0"), "steps must be a whole number (int), 1 or more"),
        (("--tune", "2", "--tune-rank", "0"), "rank must be a whole number (int), 1 or more"),
        (("--tune", "2", "--tune-rank", "wide"), "a whole number is needed, or full"),
        (("--tune", "2", "--tune-length", "2"), "length must be a whole number (int), 3 or more"),
        (("--tune", "2", "--tune-length", "501"), "within the farthest length of --to, 500"),
        (("--tune", "2", "--tune-lr", "0"), "rate must be greater than 0"),
        (("--tune", "2", "--tune-lr", "nan"), "rate must be greater than 0"),
        (("--tune", "2", "--tune-lr", "inf"), "rate must be greater than 0, a finite number"),
        (("--tune-rank", "4"), "give --tune STEPS too"),
        (("--tune", "2", "--methods", "dynamic"), "dynamic: it turns by the length of the input"),
        (("--tune", "2", "--methods", "rerope,sinks"), "sinks: it tells tokens apart by their"),
        (("--tune", "2", "--to", "6600"), "the text is too short to tune on: 300 tokens behind"),
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(
    words: tuple[str, ...], said: str, folder: Path, text: Path, tmp_path: Path
) -> None:
    given = ["extend", str(folder), "--text", str(text), "--out", str(tmp_path / "out")]
    ended = run(app, [*given, "--to", "500", "--spans", "2", *words])
    assert ended.exit_code == 2, ended.output
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("posenc: ")]
    assert said in line


def test_the_command_repeats_itself(given: Options) -> None:
    every = replace(given, tuning=Tuning(12, 32, 0.02, 4))
    ended = run(app, every.command().split()[1:])
    assert ended.exit_code == 0, ended.output
    assert f"{TUNED}: training took its loss from" in ended.stdout
    assert "dynamic (tuned 12 steps) has no result: it turns by the length" in ended.stdout
    data = json.loads((given.out / "report.json").read_text())
    assert data["command"] == every.command()
    full = replace(given, tuning=Tuning(3, rank=None)).command()
    assert full.endswith("--tune 3 --tune-rank full")
