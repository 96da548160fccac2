"""`--language zh` of commands that have no test file of their own for it."""

import json
from pathlib import Path

import pytest
from lab_runs import add_run
from prose import check_pair, english
from typer.testing import CliRunner

from posenc.commands import app, check, convert
from posenc.lab.words.sweep import SWEEP
from posenc.words import Texts

run = CliRunner().invoke


@pytest.mark.parametrize("texts", [check.TEXTS, convert.TEXTS, SWEEP])
def test_both_languages_fill_in_the_same(texts: Texts) -> None:
    for ours, chinese in texts.values():
        check_pair(ours, chinese)


def test_check_speaks_chinese() -> None:
    ended = run(app, ["check", "none", "--only", "check_repr", "--language", "zh"])
    assert "通过" in ended.stdout
    assert ended.stderr == "正在检查 NoPE()\n"


def test_lab_show_speaks_chinese(tmp_path: Path) -> None:
    folder = add_run(tmp_path, "alibi", 0, (1.0, 2.0, 3.0, 4.0))
    shown = run(app, ["lab", "show", str(folder), "--language", "zh"]).stdout
    assert shown.startswith(f"{folder.name}：完成\n")
    assert "指标" in shown


def test_convert_speaks_chinese(tmp_path: Path) -> None:
    config = {"model_type": "llama", "num_hidden_layers": 1, "num_attention_heads": 1}
    config |= {"hidden_size": 8, "max_position_embeddings": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    ended = run(app, ["convert", str(tmp_path), "--to", "hf5", "--language", "zh"])
    assert ended.stderr == "完全一致：rotation：角度、增益和窗口都相同。\n"
    assert english(ended.stderr) == []
