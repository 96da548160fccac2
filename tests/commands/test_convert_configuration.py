"""`posenc convert` of configurations: what it writes, and what it leaves alone."""

import json
import resource
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from posenc.commands import app

run = CliRunner().invoke
CONFIG = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 1}
CONFIG |= {"hidden_size": 8, "max_position_embeddings": 8}


def test_leaves_no_part_of_a_configuration(tmp_path: Path) -> None:
    """As where the disk is full."""
    config, out = tmp_path / "config.json", tmp_path / "out.json"
    config.write_text(json.dumps(CONFIG))
    program = "from posenc.cli import main; main()"
    ended = subprocess.run(
        # Without -B what Python compiles would be cut short as well, for all that import it later.
        [sys.executable, "-B", "-c", program, "convert", config, "--to", "hf5", out],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16)),
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert "File too large" in ended.stderr
    assert [*tmp_path.iterdir()] == [config]


def test_overwrites_no_configuration(tmp_path: Path) -> None:
    config, out = tmp_path / "config.json", tmp_path / "out.json"
    config.write_text(json.dumps(CONFIG))
    out.symlink_to(tmp_path / "nothing")
    for _ in range(2):
        ended = run(app, ["convert", str(config), "--to", "hf5", str(out)])
        assert (ended.exit_code, ended.stderr) == (
            2, f"posenc: {out} exists already: give a new place\n",
        )  # fmt: skip
        out.unlink(missing_ok=True)
        out.write_text("{}")
    assert out.read_text() == "{}"
