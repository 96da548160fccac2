"""Folders of models: shards, their index, config.json and what else lies there."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch

from posenc.conversion import checkpoint
from posenc.errors import ConversionError
from tests.conversion.checkpoints import convert, llama, rotates, save


class TestFolders:
    def sharded(self, folder: Path) -> Path:
        """The model in two shards with their index, and a file that is none of them."""
        tensors = list(llama().items())
        shards = {"a.safetensors": dict(tensors[:5]), "b.safetensors": dict(tensors[5:])}
        for name, shard in shards.items():
            save(folder / name, shard)
        index = {name: shard for shard, held in shards.items() for name in held}
        self.write_index(folder, index)
        (folder / "config.json").write_text("{}")
        return folder

    def write_index(self, folder: Path, index: Any) -> None:
        text = json.dumps({"metadata": {}, "weight_map": index})
        (folder / "model.safetensors.index.json").write_text(text)

    def test_shards_change_together(self, tmp_path: Path) -> None:
        folder, out = self.sharded(tmp_path / "model"), tmp_path / "out"
        assert set(convert(folder, out)) == {name for name in llama() if rotates(name)}
        names = ["a.safetensors", "b.safetensors", "config.json", "model.safetensors.index.json"]
        assert sorted(path.name for path in out.iterdir()) == names
        for name in names[2:]:
            assert (out / name).read_bytes() == (folder / name).read_bytes()
        one = save(tmp_path / "one.safetensors", llama())
        convert(one, tmp_path / "new.safetensors")
        whole = safetensors.torch.load_file(tmp_path / "new.safetensors")
        parts = {}
        for shard in names[:2]:
            parts |= safetensors.torch.load_file(out / shard)
        assert parts.keys() == whole.keys()
        assert all(torch.equal(parts[name], whole[name]) for name in whole)

    @pytest.mark.parametrize(
        ("index", "message"),
        [
            ({"x": "../a.safetensors"}, "beside it"),
            ({"x": "a.safetensors"}, "disagree on 6 tensors"),
            ({"x": "c.safetensors"}, r"c\.safetensors is not a file"),
            ({"x": 3}, "not an index"),
            ([], "not an index"),
        ],
    )
    def test_an_index_that_lies_is_refused(self, tmp_path: Path, index: Any, message: str) -> None:
        folder = self.sharded(tmp_path / "model")
        self.write_index(folder, index)
        with pytest.raises(ConversionError, match=message):
            convert(folder, tmp_path / "out")
        assert list(tmp_path.iterdir()) == [folder]

    def test_a_damaged_shard_leaves_no_folder(self, tmp_path: Path) -> None:
        folder = self.sharded(tmp_path / "model")
        with (folder / "b.safetensors").open("r+b") as file:
            file.truncate(300)
        with pytest.raises(ConversionError, match=r"b\.safetensors is not a whole"):
            convert(folder, tmp_path / "out")
        assert list(tmp_path.iterdir()) == [folder]

    def test_a_failure_half_way_leaves_no_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = self.sharded(tmp_path / "model")
        real, done = checkpoint.convert_file, []

        def fails(*arguments: Any) -> None:
            real(*arguments)
            done.append(1)
            if len(done) == 2:
                raise OSError("No space left on device")

        monkeypatch.setattr(checkpoint, "convert_file", fails)
        with pytest.raises(ConversionError, match="nothing of it is left: No space left"):
            convert(folder, tmp_path / "out")
        assert list(tmp_path.iterdir()) == [folder]

    @pytest.mark.parametrize("shards", [False, True])
    def test_an_interrupt_half_way_leaves_nothing(self, tmp_path: Path, shards: bool) -> None:
        path = self.sharded(tmp_path / "a") if shards else save(tmp_path / "a", llama())

        def interrupt(done: int, total: int) -> None:
            assert len(list(tmp_path.iterdir())) == 2
            if 2 * done > total:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            convert(path, tmp_path / "out", progress=interrupt)
        assert list(tmp_path.iterdir()) == [path]

    def test_a_folder_must_hold_one_checkpoint(self, tmp_path: Path) -> None:
        folder = self.sharded(tmp_path / "model")
        save(folder / "model.safetensors", llama())
        with pytest.raises(ConversionError, match="holds both"):
            convert(folder, tmp_path / "out")
        (tmp_path / "other").mkdir()
        with pytest.raises(ConversionError, match="holds neither"):
            convert(tmp_path / "other", tmp_path / "out")
