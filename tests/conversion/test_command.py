"""`posenc convert` from the shell."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from typer.testing import CliRunner

import posenc as pe
from posenc.commands import app
from tests.conversion.checkpoints import convert, llama, save

OPTIONS = ("--from", "half", "--to", "interleaved", "--head-dim", "8")


def run_after(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    """What becomes of `posenc convert` of `path` in a process that runs this first."""
    program = f"{program}\nfrom posenc.cli import main\nmain()"
    # Without -B what Python compiles would be cut short too, where the size of files is limited.
    command = [sys.executable, "-B", "-c", program, "convert", str(path), str(path.with_name("b"))]
    return subprocess.run([*command, *OPTIONS], capture_output=True, text=True)


class TestCommand:
    def test_it_converts_and_says_what(self, tmp_path: Path) -> None:
        path, out = save(tmp_path / "a", llama()), tmp_path / "b"
        ended = CliRunner().invoke(app, ["convert", str(path), str(out), *OPTIONS, "--json"])
        assert ended.exit_code == 0, ended.output
        assert json.loads(ended.stdout)["converted"] == list(convert(path, tmp_path / "c"))
        assert out.read_bytes() == (tmp_path / "c").read_bytes()
        again = CliRunner().invoke(app, ["convert", str(path), str(out), *OPTIONS])
        assert again.exit_code == 2
        assert "exists already" in again.stderr
        other = [str(path), str(tmp_path / "d"), *OPTIONS, "--pattern", r"q_proj\.weight$"]
        other += ["--columns", r"q_proj\.bias$|[qk]_norm\.weight$"]
        ended = CliRunner().invoke(app, ["convert", *other])
        assert "4 tensors from half to interleaved" in ended.stdout.replace("\n", " ")

    def test_columns(self, tmp_path: Path) -> None:
        old = {"q": torch.randn(3, 16), "k": torch.randn(16, 3)}
        path, out = save(tmp_path / "a", old), tmp_path / "b"
        options = ["--columns", "q", "--pattern", "k"]
        ended = CliRunner().invoke(app, ["convert", str(path), str(out), *OPTIONS, *options])
        assert ended.exit_code == 0, ended.output
        new = safetensors.torch.load_file(out)
        for name, dim in ("q", -1), ("k", 0):
            expected = pe.convert_layout(old[name], "half", "interleaved", head_dim=8, dim=dim)
            assert torch.equal(new[name], expected)

    def test_a_disk_that_takes_no_more(self, tmp_path: Path) -> None:
        pytest.importorskip("resource")
        path = save(tmp_path / "a", llama())
        assert path.stat().st_size > 1_000
        ended = run_after(
            "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))", path
        )
        assert ended.returncode == 2
        assert "nothing of it is left: File too large" in ended.stderr
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
    def test_ended_half_way_it_removes_what_it_wrote(self, tmp_path: Path, name: str) -> None:
        path = save(tmp_path / "a", llama())
        ended = run_after(
            "import os, signal; from pathlib import Path\n"
            "from posenc.conversion import checkpoint\n"
            "def killed(*_):\n"
            f"    assert list(Path({str(tmp_path)!r}).glob('.b.*.tmp'))\n"
            f"    os.kill(os.getpid(), signal.{name})\n"
            "checkpoint.convert_file = killed",
            path,
        )
        assert ended.returncode == 128 + getattr(signal, name), ended.stderr
        assert list(tmp_path.iterdir()) == [path]

    def test_it_does_not_load_torch(self, tmp_path: Path) -> None:
        """Whose import alone takes most of the memory that a conversion may need."""
        path = save(tmp_path / "a", llama())
        ended = run_after(
            "import atexit, sys\natexit.register(lambda: print('torch' in sys.modules))", path
        )
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.endswith("False\n")
