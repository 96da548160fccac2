"""The corpus: what is read, what is left out, and that no test byte is trained on."""

import os
import sysconfig
from pathlib import Path

import pytest

from posenc.errors import LabError
from posenc.lab import text as module
from posenc.lab.text import Corpus, read_text, standard_library


def write(folder: Path, **files: str | bytes) -> Path:
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


def many(folder: Path, count: int = 100) -> Path:
    return write(folder, **{f"f{i:03}.txt": f"file {i} says {i * i}\n" * 20 for i in range(count)})


class TestStandardLibrary:
    corpus = standard_library()

    def test_no_file_is_on_both_sides(self) -> None:
        root = Path(sysconfig.get_path("stdlib"))
        sides = {"train": 0, "test": 0}
        for name in ("abc.py", "ast.py", "bisect.py", "enum.py", "json/encoder.py", "typing.py"):
            data = (root / name).read_bytes()
            inside = [data in self.corpus.train, data in self.corpus.test]
            assert sorted(inside) == [False, True], name
            sides["train" if inside[0] else "test"] += 1
        assert min(sides.values()) > 0

    def test_a_tenth_is_for_testing(self) -> None:
        share = len(self.corpus.test) / (len(self.corpus.train) + len(self.corpus.test))
        assert 0.1 <= share <= 0.2
        assert len(self.corpus.train) > 4_000_000

    def test_is_the_same_each_time(self) -> None:
        again = standard_library()
        assert again == self.corpus

    @pytest.mark.parametrize(
        "name",
        ["test/test_enum.py", "lib2to3/pygram.py", "encodings/cp1252.py", "pydoc_data/topics.py"],
    )
    def test_leaves_out_tests_and_tables(self, name: str) -> None:
        path = Path(sysconfig.get_path("stdlib"), name)
        if not path.exists():
            pytest.skip(f"this Python has no {name}")
        data = path.read_bytes()
        assert data not in self.corpus.train
        assert data not in self.corpus.test

    def test_a_python_without_source_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
        with pytest.raises(LabError, match="--text"):
            standard_library()


class TestSplit:
    def test_files_are_on_one_side_and_none_is_lost(self, tmp_path: Path) -> None:
        folder = many(tmp_path / "many")
        corpus = read_text([folder])
        for path in folder.iterdir():
            data = path.read_bytes()
            assert (data in corpus.train) != (data in corpus.test)
        total = sum(path.stat().st_size for path in folder.iterdir())
        assert len(corpus.train) + len(corpus.test) == total == corpus.summary["bytes"]
        assert total / 10 <= len(corpus.test) <= total / 5
        assert corpus.summary["split"].startswith("by file")

    def test_does_not_depend_on_the_place_of_the_folder(self, tmp_path: Path) -> None:
        here, there = many(tmp_path / "here"), many(tmp_path / "there")
        assert read_text([here]).summary["sha256"] == read_text([there]).summary["sha256"]

    def test_one_file_gives_its_last_tenth(self, tmp_path: Path) -> None:
        data = bytes(range(32, 127)) * 100
        write(tmp_path, a=data)
        corpus = read_text([tmp_path / "a"])
        assert corpus.train + corpus.test == data
        assert len(corpus.test) == len(data) // 10
        assert "last tenth" in corpus.summary["split"]

    def test_a_file_too_large_to_be_a_tenth_is_cut_instead(self, tmp_path: Path) -> None:
        write(tmp_path, large=b"large" * 1000, small=b"small")
        corpus = read_text([tmp_path])
        assert corpus.train.startswith(b"large")
        assert corpus.test == b"large" * 100

    def test_copies_count_once_so_that_none_is_on_the_other_side(self, tmp_path: Path) -> None:
        folder = many(tmp_path / "many")
        once = read_text([folder])
        for path in list(folder.iterdir()):
            (folder / f"copy-{path.name}").write_bytes(path.read_bytes())
        twice = read_text([folder, folder])
        assert twice.summary["bytes"] == once.summary["bytes"]
        assert twice.summary["skipped"] == {"duplicate": 300}

    def test_another_text_is_another_hash(self, tmp_path: Path) -> None:
        write(tmp_path, a="one " * 50, b="two " * 50)
        first, second = read_text([tmp_path / "a"]), read_text([tmp_path / "b"])
        assert first.summary["sha256"] != second.summary["sha256"]

    def test_a_shorter_training_part_leaves_the_test_part(self, tmp_path: Path) -> None:
        whole = read_text([many(tmp_path / "many")])
        part = whole.shortened(500)
        assert (part.train, part.test) == (whole.train[:500], whole.test)
        assert part.summary["train_bytes"] == 500
        assert part.summary["sha256"] != whole.summary["sha256"]
        assert whole.shortened(len(whole.train)) == whole
        for size in (0, -1, len(whole.train) + 1):
            with pytest.raises(
                LabError, match=rf"train_bytes is {size}: .* has {len(whole.train)}"
            ):
                whole.shortened(size)


class TestHostileText:
    @pytest.mark.parametrize(
        ("data", "message"),
        [(b"", "empty"), (b" \n\n", "empty"), (b"\x7fELF\0\0", "binary")],
        ids=["empty", "blank", "binary"],
    )
    def test_a_given_file_without_text_is_refused(
        self, tmp_path: Path, data: bytes, message: str
    ) -> None:
        write(tmp_path, given=data)
        with pytest.raises(LabError, match=rf"given: .*{message}"):
            read_text([tmp_path / "given"])

    def test_a_missing_path_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(LabError, match="nowhere: cannot be read"):
            read_text([tmp_path / "nowhere"])

    def test_a_folder_without_text_is_refused_and_says_what_it_left_out(
        self, tmp_path: Path
    ) -> None:
        write(tmp_path / "folder", image=b"\0\0", nothing=b"")
        with pytest.raises(LabError, match="1 binary, 1 empty"):
            read_text([tmp_path / "folder"])

    def test_a_folder_leaves_out_what_is_not_text(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "folder", image=b"a\0b", nothing=b"", text=b"words " * 20)
        write(folder / ".git", config=b"secret")
        (folder / ".hidden").write_bytes(b"secret")
        corpus = read_text([folder])
        assert corpus.train + corpus.test == b"words " * 20
        assert corpus.summary["skipped"] == {"binary": 1, "empty": 1}

    def test_links_that_turn_in_circles_end(self, tmp_path: Path) -> None:
        folder = write(tmp_path / "folder", text=b"words " * 20)
        (folder / "up").symlink_to(folder, target_is_directory=True)
        (folder / "self").symlink_to(folder / "self")
        corpus = read_text([folder])
        assert corpus.summary["files"] == 1
        assert corpus.summary["skipped"] == {"unreadable": 1}

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(LabError, match="neither a file nor a folder"):
            read_text([tmp_path / "pipe"])
        write(tmp_path, text=b"words " * 20)
        assert read_text([tmp_path]).summary["skipped"] == {"not a file": 1}

    def test_unreadable_files_are_refused_alone_and_counted_in_a_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(tmp_path, locked=b"words", open=b"words " * 20)
        read = Path.read_bytes

        def refuse(path: Path) -> bytes:
            if path.name == "locked":
                raise PermissionError(13, "Permission denied")
            return read(path)

        monkeypatch.setattr(Path, "read_bytes", refuse)
        with pytest.raises(LabError, match=r"locked: cannot be read \(Permission denied"):
            read_text([tmp_path / "locked"])
        assert read_text([tmp_path]).summary["skipped"] == {"unreadable": 1}

    def test_more_than_memory_can_hold_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "LARGEST", 100)
        write(tmp_path, a=b"a" * 60, b=b"b" * 60, c=b"c" * 101)
        for path in (tmp_path, tmp_path / "c"):
            with pytest.raises(LabError, match="fewer files"):
                read_text([path])

    def test_names_that_are_not_utf8_are_read(self, tmp_path: Path) -> None:
        try:
            Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).write_bytes(b"words " * 20)
        except OSError:
            pytest.skip("this file system wants UTF-8 names")
        assert read_text([tmp_path]).summary["files"] == 1


class TestRequire:
    def test_enough_is_exactly_enough(self) -> None:
        Corpus(b"a" * 9, b"a" * 33, {}).require(8, 16, 2)

    @pytest.mark.parametrize(
        ("train", "test", "part"), [(8, 33, "training part has 8"), (9, 32, "test part has 32")]
    )
    def test_one_byte_less_is_too_short(self, train: int, test: int, part: str) -> None:
        with pytest.raises(LabError, match=part):
            Corpus(b"a" * train, b"a" * test, {}).require(8, 16, 2)
