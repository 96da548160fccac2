"""What cannot be measured is refused in one clear line, before any work."""

import json
from pathlib import Path

import pytest
from extend_models import TRAINED, byte_tokenizer, save_tiny, tiny_model
from typer.testing import CliRunner

from posenc.commands import app

run = CliRunner().invoke


def refused(*arguments: object, text: Path) -> str:
    """The one line on stderr."""
    words = ["extend", *map(str, arguments), "--text", str(text)]
    ended = run(app, words)
    assert ended.exit_code == 2, ended.output
    lines = [line for line in ended.stderr.splitlines() if line.startswith("posenc: ")]
    assert len(lines) == 1
    assert "Traceback" not in ended.stderr
    return lines[0]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"))


def changed(folder: Path, to: Path, **values: object) -> Path:
    config = json.loads((folder / "config.json").read_text())
    to.mkdir()
    kept = {name: x for name, x in (config | values).items() if x is not None}
    (to / "config.json").write_text(json.dumps(kept))
    return to


def test_a_model_that_does_not_turn(text: Path, tmp_path: Path) -> None:
    sizes = {"n_layer": 1, "n_embd": 32, "n_head": 2, "n_positions": 64}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"} | sizes))
    assert "no layer of it turns by position (no rotary)" in refused(tmp_path, text=text)


def test_a_model_that_is_extended_already(folder: Path, text: Path, tmp_path: Path) -> None:
    rope = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}
    other = changed(folder, tmp_path / "other", rope_parameters=rope)
    assert "it is extended already, by Linear" in refused(other, text=text)


def test_a_model_that_reads_both_sides(text: Path, tmp_path: Path) -> None:
    from transformers import ModernBertConfig

    (tmp_path / "config.json").write_text(json.dumps(ModernBertConfig().to_dict()))
    assert "a decoder is needed" in refused(tmp_path, text=text)


def test_no_model(text: Path, tmp_path: Path) -> None:
    assert "nothing" in refused(tmp_path / "nothing", text=text)


def test_no_tokenizer(text: Path, tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path)
    assert "it has no tokenizer beside it" in refused(tmp_path, text=text)


@pytest.mark.parametrize("length", [TRAINED, 2, f"128,{TRAINED - 1}"])
def test_a_target_that_the_model_was_trained_for(length: object, folder: Path, text: Path) -> None:
    line = refused(folder, "--to", length, text=text)
    assert f"the model was trained on {TRAINED} tokens" in line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--to", "far"), "whole numbers between commas are needed"),
        (("--to", "0"), "to must be a whole number (int), 2 or more"),
        (("--methods", "yarn,yran"), "method='yran'"),
        (("--methods", ","), "nothing is named"),
        (("--measures", "loss"), "measure='loss'"),
        (("--spans", "0"), "spans must be a whole number (int), 1 or more"),
        (("--needles", "0"), "needles must be a whole number"),
        (("--seed", "-1"), "seed must be a whole number (int), 0 or more"),
        (("--write", "none"), "write='none'"),
        (("--write", "magic"), "write='magic'"),
        (("--out", "/dev/null/x"), "results cannot be written there"),
    ],
)
def test_an_option_that_has_no_meaning(
    options: tuple[str, str], said: str, folder: Path, text: Path
) -> None:
    assert said in refused(folder, *options, text=text)


def test_a_text_that_is_too_short(folder: Path, tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_text("a few words\n" * 30)
    line = refused(folder, "--measures", "windows", text=short)
    assert "the text is too short: 3 spans and a haystack of 128 tokens each are needed" in line
    assert "one of 4 equal parts of it has 90" in line


def test_no_room_for_a_passkey(folder: Path, text: Path) -> None:
    assert "and 32 are to be read" in refused(folder, text=text)


def test_methods_that_the_model_has_no_room_for_are_left_out(text: Path, tmp_path: Path) -> None:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = GPTNeoXConfig(
        vocab_size=257, intermediate_size=32, max_position_embeddings=64, **sizes
    )
    GPTNeoXForCausalLM(config).save_pretrained(tmp_path / "model")
    byte_tokenizer().save_pretrained(tmp_path / "model")
    words = ["extend", str(tmp_path / "model"), "--text", str(text), "--spans", "1"]
    words += ["--methods", "yarn,rerope", "--measures", "short"]
    ended = run(app, words)
    assert ended.exit_code == 0, ended.output
    assert "rerope has no result: the model turns 4 of 16 dimensions" in ended.stdout
    assert "rerope" in (tmp_path / "posenc-extend" / "report.html").read_text()
    alone = refused(tmp_path / "model", "--methods", "rerope", "--measures", "short", text=text)
    assert "whole heads only" in alone
