"""`posenc doctor`: what it prints, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from posenc.commands import app
from posenc.models.doctor import examine
from posenc.models.doctor.engines import ENGINES
from tests.support.doctor_cases import LLAMA, YARN, scaled

run = CliRunner().invoke
SOUND = LLAMA | {"rope_theta": 10_000.0, "max_position_embeddings": 512}
SICK = scaled(**YARN, attention_factor=1.0)


def written(folder: Path, config: dict[str, Any]) -> str:
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    return str(file)


def test_a_sound_file_ends_with_zero(tmp_path: Path) -> None:
    ended = run(app, ["doctor", written(tmp_path, SOUND)])
    assert ended.exit_code == 0
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[-1] == "Nothing was found."


def test_a_warning_alone_ends_with_zero(tmp_path: Path) -> None:
    file = written(tmp_path, SOUND | {"window_of_time": 3})
    ended = run(app, ["doctor", file])
    assert ended.exit_code == 0
    assert "warning unread-keys window_of_time" in ended.stdout


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_a_terminal_obeys_in_a_key_is_shown(language: str, tmp_path: Path) -> None:
    keys = {"rope_\x1b[2J": 1, "rope_\nNothing was found.": 2, "rope_\u5757": 3}
    said = run(app, ["doctor", written(tmp_path, SOUND | keys), "--lang", language]).stdout
    assert r"'rope_\nNothing was found.', 'rope_\x1b[2J', rope_块" in said
    assert "\x1b" not in said


def test_an_error_ends_with_one_and_tells_number_and_mend(tmp_path: Path) -> None:
    ended = run(app, ["doctor", written(tmp_path, SICK), "--engine", "vllm"])
    assert ended.exit_code == 1
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    assert "error yarn-gain vllm attention_factor" in lines
    assert "  cos and sin are 1.277 times what is meant, scores its square." in lines
    mend = next(line for line in lines if line.startswith("  Mend, into config.json: "))
    patch = json.loads(mend.partition(": ")[2])
    assert patch == {"rope_scaling": {"attn_factor": pytest.approx(1 / 1.2772588722239782)}}


def test_engines_are_chosen_with_commas_between(tmp_path: Path) -> None:
    file = written(tmp_path, SICK)
    told = json.loads(run(app, ["doctor", file, "--engine", " vllm, mlx,", "--json"]).stdout)
    assert told["engines"] == ["vllm", "mlx"]
    assert {x["engine"] for x in told["findings"]} <= {"vllm", "mlx", None}
    assert json.loads(run(app, ["doctor", file, "--json"]).stdout)["engines"] == list(ENGINES)
    for none in ("", ","):
        ended = run(app, ["doctor", file, "--engine", none])
        assert ended.exit_code == 2
        assert f"no engine is called {none!r}" in ended.stderr


def test_json_holds_the_numbers(tmp_path: Path) -> None:
    file = written(tmp_path, SICK)
    options = ["--engine", "sglang", "--target-length", "100000", "--json", "--lang", "zh"]
    ended = run(app, ["doctor", file, *options])
    assert ended.exit_code == 1
    told = json.loads(ended.stdout)
    expected = examine(SICK, engines=["sglang"], target_length=100_000)
    assert (told["model_type"], told["target_length"], told["sound"]) == ("llama", 100_000, False)
    assert len(told["findings"]) == len(expected.findings)
    for own, finding in zip(told["findings"], expected.findings, strict=True):
        assert (own["rule"], own["weight"]) == (finding.rule, finding.weight)
        assert own["numbers"] == dict(finding.numbers)
        assert (own["effect"] is None) == (finding.effect is None)
        if finding.effect is not None:
            assert own["effect"]["gain"] == finding.effect.gain
            assert own["effect"]["angle"] == finding.effect.angle
    beyond = next(x for x in told["findings"] if x["rule"] == "beyond-training")
    assert beyond["numbers"]["trained"] == 65_536
    # Programs read English, whatever people read.
    assert beyond["words"].startswith("100000 tokens are beyond the 65536")


def test_it_speaks_chinese(tmp_path: Path) -> None:
    file = written(tmp_path, SOUND)
    assert run(app, ["doctor", file, "--lang", "zh"]).stdout.splitlines()[-1] == "没有发现问题。"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "vlm"], "posenc: no engine is called 'vlm': did you mean 'vllm'"),
        (["--target-length", "0"], "posenc: examine(target_length=0): at least 1 is needed"),
        (["--weights"], "config.json has no safetensors file: --weights reads no other"),
    ],
)
def test_wrong_options_end_with_two(options: list[str], message: str, tmp_path: Path) -> None:
    ended = run(app, ["doctor", written(tmp_path, SICK), *options])
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_file_that_is_not_there_ends_with_two(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "config.json"):
        ended = run(app, ["doctor", str(path)])
        assert ended.exit_code == 2
        assert ended.stdout == ""
        assert "config.json is not a model's configuration" in ended.stderr
