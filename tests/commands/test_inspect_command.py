"""posenc inspect: what it prints and writes, and how it says no."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from posenc.commands import app
from tests.support.gguf_files import gguf_bytes
from tests.support.small_models import llama

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    llama().save_pretrained(path)
    return path


def inspect(*words: object) -> Result:
    return CliRunner().invoke(app, ["inspect", *map(str, words)])


class TestInspect:
    def test_it_prints_a_table_and_writes_both_files(self, folder: Path, tmp_path: Path) -> None:
        ended = inspect(folder, "--out", tmp_path / "new" / "out", "--tokens", 24)
        assert ended.exit_code == 0, ended.output
        data = json.loads((tmp_path / "new/out/inspect.json").read_text())
        assert [layer["layer"] for layer in data["layers"]] == [0, 1]
        assert all(sentence in ended.stdout for sentence in data["summary"])
        assert "previous" in ended.stdout
        assert (tmp_path / "new/out/inspect.html").read_text().startswith("<!doctype html>")

    def test_json_is_what_it_writes(self, folder: Path, tmp_path: Path) -> None:
        ended = inspect(folder, "--out", tmp_path, "--tokens", 16, "--layers", "1", "--json")
        assert json.loads(ended.stdout) == json.loads((tmp_path / "inspect.json").read_text())
        assert [layer["layer"] for layer in json.loads(ended.stdout)["layers"]] == [1]

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--layers", "0,7"], "no layer with attention is called '7': known are 0, 1"),
            (["--layers", "2-1"], "numbers and ranges between commas"),
            (["--layers", "0-99999999999"], "numbers and ranges between commas"),
            (["--layers", "-1"], "numbers and ranges between commas"),
            (["--layers", ""], "numbers and ranges between commas"),
            (["--tokens", "1"], "give 2 or more, and this model takes 128 at most"),
            (["--tokens", "129"], "give 2 or more, and this model takes 128 at most"),
            (["--text", "words.txt"], "the model has no tokenizer"),
        ],
    )
    def test_what_it_cannot_do_it_says_in_one_line(
        self, folder: Path, tmp_path: Path, words: list[str], said: str
    ) -> None:
        ended = inspect(folder, "--out", tmp_path, *words)
        assert ended.exit_code == 2
        (line,) = [x for x in ended.stderr.splitlines() if x.startswith("posenc:")]
        assert said in line
        assert not (tmp_path / "inspect.json").exists()

    @pytest.mark.parametrize("given", ["nowhere", "empty", "text.txt"])
    def test_what_is_no_model(self, tmp_path: Path, given: str) -> None:
        (tmp_path / "empty").mkdir()
        (tmp_path / "text.txt").write_text("no weights")
        ended = inspect(tmp_path / given, "--out", tmp_path)
        assert ended.exit_code == 2
        assert "is no model" in ended.stderr
        assert "Traceback" not in ended.stderr

    @pytest.mark.parametrize("length", [0, 4, 24, 60, 90])
    def test_a_gguf_file_that_ends_early_is_named(self, tmp_path: Path, length: int) -> None:
        file = tmp_path / "model.gguf"
        whole = gguf_bytes({"general.architecture": "llama", "llama.block_count": 2})
        file.write_bytes(whole[:length])
        ended = inspect(file, "--out", tmp_path)
        assert ended.exit_code == 2, ended.output
        assert isinstance(ended.exception, SystemExit)
        assert f"posenc: {file} is no" in ended.stderr.replace("\n", " ")

    @pytest.mark.parametrize("name", ["model.gguf", "model.safetensors"])
    def test_random_bytes_are_no_weights(self, folder: Path, tmp_path: Path, name: str) -> None:
        given = shutil.copytree(folder, tmp_path / "given")
        file = given / name
        file.write_bytes(random.Random(0).randbytes(4096))
        source = file if name.endswith("gguf") else given
        ended = inspect(source, "--out", tmp_path)
        assert ended.exit_code == 2, ended.output
        assert isinstance(ended.exception, SystemExit)
        assert f"posenc: {source} is no model" in ended.stderr

    @pytest.mark.parametrize(
        ("missing", "extra"), [("transformers", "models"), ("matplotlib", "plot")]
    )
    def test_without_what_it_needs_it_says_what_to_install(
        self, folder: Path, missing: str, extra: str
    ) -> None:
        program = (
            f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['posenc', 'inspect', "
            f"{str(folder)!r}]\nfrom posenc.cli import main; main()"
        )
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert ended.returncode in (1, 2)
        (line,) = ended.stderr.splitlines()
        assert f'pip install -e ".[{extra}]"' in line
