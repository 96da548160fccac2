"""Texts that lie as records: each is one text, and what is missing is said."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from posenc.errors import LabError
from posenc.lab.text import read_text


def lines(path: Path, *rows: object) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def test_each_line_is_a_text_on_one_side_of_the_split(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", *({"text": f"record {i} of many\n" * 9} for i in range(100)))
    lines(tmp_path / "b.jsonl", {"text": "schön"}, {"text": "  "})
    corpus = read_text([tmp_path])
    assert corpus.summary["files"] == 101
    assert corpus.summary["skipped"] == {"empty": 1}
    assert "schön\n".encode() in corpus.train + corpus.test
    for i in range(100):
        record = f"record {i} of many\n".encode()
        assert (record in corpus.train) != (record in corpus.test)


def test_a_folder_with_other_files_is_read_as_it_stands(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", {"text": "one"})
    (tmp_path / "readme.md").write_text("what it is")
    corpus = read_text([tmp_path])
    assert b'{"text": "one"}' in corpus.train + corpus.test


@pytest.mark.parametrize("row", [{"content": "one"}, {"text": None}, ["text"]])
def test_a_record_without_text_is_named(tmp_path: Path, row: object) -> None:
    lines(tmp_path / "a.jsonl", {"text": "one"}, row)
    with pytest.raises(LabError, match=r"record 1 of a\.jsonl has no 'text'"):
        read_text([tmp_path])


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"te')
    with pytest.raises(LabError, match=r"a\.jsonl: line 2 is not JSON"):
        read_text([tmp_path])


def test_datasets_is_asked_for_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(LabError, match=r"datasets, which is not installed: pip install .*data"):
        read_text([tmp_path])


def test_what_datasets_saved_is_read_split_by_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dataset_dict.json").write_text("{}")
    saved = {"train": [{"text": "one of them"}], "test": [{"text": "another one"}]}
    monkeypatch.setitem(
        sys.modules, "datasets", SimpleNamespace(load_from_disk={str(tmp_path): saved}.get)
    )
    corpus = read_text([tmp_path])
    assert corpus.summary["files"] == 2
