"""The measured losses of the explorer: of today's protocol, with README's verdict."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lab_runs import add_known, report

from posenc.explorer.bundle import SOURCE
from posenc.lab.config import Comparison, RunConfig
from posenc.lab.model import make_encodings
from posenc.lab.tasks.text import Text

sys.path.append(str(Path(__file__).parents[2] / "tools"))
import compared_losses


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    text = (SOURCE / "data" / "compare.js").read_text("utf-8")
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


def means(kept: dict[str, Any], name: str) -> list[float]:
    return [found["mean"] for found in kept["encodings"][name]["loss"].values()]


def test_they_are_of_the_comparison_as_it_is_by_default(kept: dict[str, Any]) -> None:
    chosen = Comparison()
    assert kept["command"] == chosen.command()
    assert set(kept["encodings"]) == set(chosen.encodings)
    assert kept["trainLength"] == chosen.train_length
    assert kept["lengths"] == list(chosen.test_lengths)
    assert kept["targets"] == RunConfig("none").target_tokens
    assert kept["model"] == {key: getattr(RunConfig("none"), key) for key in compared_losses.SHARED}
    for encoding in kept["encodings"].values():
        assert list(encoding["loss"]) == [str(length) for length in chosen.test_lengths]
        for found in encoding["loss"].values():
            assert list(found["seeds"]) == [str(seed) for seed in range(chosen.seeds)]
            assert found["low"] < found["mean"] < found["high"]


def test_the_verdict_is_that_of_the_readme(kept: dict[str, Any]) -> None:
    readme = Path(__file__).parents[2].joinpath("README.md").read_text("utf-8")
    assert (
        "ALiBi stays flat to 512, T5 and rotary rise, learned and sinusoidal jump at 128" in readme
    )
    category = {name: found["category"] for name, found in kept["encodings"].items()}
    assert category.pop("alibi") == "holds"
    assert {category.pop(name) for name in ("learned", "sinusoidal")} == {"breaks"}
    assert set(category.values()) == {"degrades"}
    assert max(means(kept, "alibi")) - min(means(kept, "alibi")) < 0.05
    for name in ("t5", "rotary"):
        assert means(kept, name) == sorted(means(kept, name)), name
    for name in ("learned", "sinusoidal"):
        assert means(kept, name)[1] - means(kept, name)[0] > 1, name
    # What the chapter says of RoPE.
    trained, twice, _, longest = means(kept, "rotary")
    assert twice - trained < 0.05 < longest - means(kept, "none")[-1]


def test_other_angles_under_trained_weights_do_what_the_page_says(kept: dict[str, Any]) -> None:
    assert list(kept["methods"]) == list(compared_losses.METHODS)
    for length, loss in kept["methods"]["none"].items():
        measured = kept["encodings"]["rotary"]["loss"][length]["mean"]
        assert loss == pytest.approx(measured, abs=1e-3)
    at_longest = [loss["512"] for loss in kept["methods"].values()]
    assert at_longest == sorted(at_longest, reverse=True)
    trained = means(kept, "rotary")[0]
    assert at_longest[-1] - trained < 0.1 < 0.4 < at_longest[-2] - trained


def test_the_page_has_the_encodings_that_the_lab_trains(node: str, workshop: Path) -> None:
    script = (
        'import { panel } from "../../posenc/explorer/panels/beyond.js";\n'
        'import { settingsFor } from "./page.mjs";\n'
        "console.log(panel.python(settingsFor(panel)));"
    )
    ended = subprocess.run(
        [node, "--input-type=module", "-e", script],
        cwd=workshop, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names: dict[str, Any] = {}
    exec(compile(ended.stdout, "copied from beyond", "exec"), names)
    made = {name: make_encodings(RunConfig(name), Text()) for name in Comparison.encodings}
    of_the_lab = {name: each for name, (each,) in made.items()}
    assert {name: (type(each), each.settings()) for name, each in names["encodings"].items()} == {
        name: (type(each), each.settings()) for name, each in of_the_lab.items()
    }


def test_they_come_out_of_a_report(tmp_path: Path) -> None:
    add_known(tmp_path)
    *_, found = report(tmp_path)
    data = compared_losses.data_of(found)
    assert data["lengths"] == found["lengths"]
    for name, encoding in found["encodings"].items():
        assert data["encodings"][name]["category"] == encoding["category"]
        for length, measured in encoding["loss"]["targets"].items():
            kept = data["encodings"][name]["loss"][length]
            assert kept["mean"] == pytest.approx(measured["interval"]["mean"], abs=1e-4)
            assert list(kept["seeds"].values()) == pytest.approx(
                list(measured["seeds"].values()), abs=1e-4
            )
