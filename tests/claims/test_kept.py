"""Results that are read from a folder of one's own."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from posenc.commands import app


@pytest.mark.parametrize("text", ['{"claim": 1', "[]", '{"outcome": "holds"}', "\xff", "[" * 10**5])
def test_a_file_that_is_no_result_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "results").mkdir()
    file = tmp_path / "results" / "absolute_breaks.json"
    file.write_text(text, "latin-1")
    for words in (["show", "absolute_breaks"], ["report"]):
        ended = CliRunner().invoke(app, ["claims", *words, "--out", str(tmp_path)])
        assert ended.exit_code == 2
        assert ended.stderr.startswith(f"posenc: {file} is no result of a claim")
        assert "`posenc claims run absolute_breaks`" in ended.stderr
