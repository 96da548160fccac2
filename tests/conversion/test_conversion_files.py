"""Whole checkpoints between layouts: files and folders, damaged ones, and where they may go."""

import json
import signal
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from typer.testing import CliRunner

import posenc as pe
from posenc.commands import app
from posenc.conversion import checkpoint, pairs, stream
from posenc.conversion.header import read_header
from posenc.conversion.names import Names
from posenc.errors import ConversionError, SettingError, UnknownNameError


def llama(head_dim: int = 8, dtype: torch.dtype = torch.bfloat16) -> dict[str, Tensor]:
    """Four heads of queries, two of keys, their norms and a LoRA, among what does not turn."""
    layer = "model.layers.0.self_attn"
    shapes = {
        "model.embed_tokens.weight": (11, 12),
        f"{layer}.q_proj.weight": (4 * head_dim, 12),
        f"{layer}.q_proj.bias": (4 * head_dim,),
        f"{layer}.k_proj.base_layer.weight": (2 * head_dim, 12),
        f"{layer}.k_proj.lora_A.default.weight": (3, 12),
        f"{layer}.k_proj.lora_B.default.weight": (2 * head_dim, 3),
        f"{layer}.v_proj.weight": (2 * head_dim, 12),
        f"{layer}.o_proj.weight": (12, 4 * head_dim),
        f"{layer}.q_norm.weight": (head_dim,),
        f"{layer}.k_norm.weight": (head_dim,),
        f"{layer}.q_proj.input_scale": (),
        f"{layer}.q_proj.weight_scale": (1,),
        "model.nothing": (0, 4),
    }
    torch.manual_seed(0)
    return {name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}


TURNED = {
    *("q_proj.weight", "q_proj.bias", "k_proj.base_layer.weight", "q_norm.weight"),
    *("k_proj.lora_B.default.weight", "k_norm.weight"),
}


def turns(name: str) -> bool:
    return name.removeprefix("model.layers.0.self_attn.") in TURNED


def bits(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def save(path: Path, tensors: dict[str, Tensor]) -> Path:
    path.parent.mkdir(exist_ok=True)
    safetensors.torch.save_file(tensors, path, {"format": "pt", "note": "kept"})
    return path


def convert(path: Path, out: Path, **options: Any) -> tuple[str, ...]:
    options = {"head_dim": 8, **options}
    return pe.convert_checkpoint(path, out, "half", "interleaved", **options)


# Whether many heads fit into a chunk, or not even one, and whether torch moves the narrow ones.
WAYS = [(chunk, many) for chunk in (stream.CHUNK, 2_000, 500, 40) for many in (stream.MANY, 1)]


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch, chunk: int, many: int) -> None:
    monkeypatch.setattr(stream, "CHUNK", chunk)
    monkeypatch.setattr(stream, "MANY", many)


class TestFiles:
    @pytest.mark.parametrize(
        "dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.float8_e5m2]
    )
    @pytest.mark.parametrize(("chunk", "many"), WAYS)
    def test_a_file_changes_as_its_tensors_do(
        self, tmp_path: Path, moved: None, dtype: torch.dtype
    ) -> None:
        old = llama(dtype=dtype)
        path, out = save(tmp_path / "old.safetensors", old), tmp_path / "new.safetensors"
        changed = convert(path, out, rotary_dim=4, start=-4, heads=4, kv_heads=2)
        assert {name for name in old if turns(name)} == set(changed)
        new = safetensors.torch.load_file(out)
        assert list(new) == list(safetensors.torch.load_file(path))
        for name, tensor in old.items():
            if turns(name):
                options = {"head_dim": 8, "rotary_dim": 4, "start": -4}
                tensor = pe.convert_layout(tensor, "half", "interleaved", **options)
            assert torch.equal(bits(new[name]), bits(tensor))
        with safetensors.safe_open(out, "pt") as file:
            assert file.metadata() == {"format": "pt", "note": "kept"}
        back = tmp_path / "back.safetensors"
        pe.convert_checkpoint(out, back, "interleaved", "half", head_dim=8, rotary_dim=4, start=-4)
        assert back.read_bytes() == path.read_bytes() != out.read_bytes()
        assert sorted(tmp_path.iterdir()) == sorted([path, out, back])

    @pytest.mark.parametrize(("chunk", "many"), WAYS)
    def test_kernels_stored_in_out_change_their_columns(self, tmp_path: Path, moved: None) -> None:
        """As flax names and shapes them: projections also (in, heads, head_dim)."""
        layer = "model.layers.0.self_attn"
        shapes = {
            f"{layer}.q_proj.kernel": (5, 32),
            f"{layer}.q_proj.bias": (32,),
            f"{layer}.k_proj.kernel": (5, 2, 8),
            f"{layer}.k_proj.bias": (2, 8),
            f"{layer}.k_norm.scale": (8,),
            f"{layer}.v_proj.kernel": (5, 2, 8),
        }
        old = {name: torch.randn(shape) for name, shape in shapes.items()}
        convert(save(tmp_path / "a", old), tmp_path / "b", heads=4, kv_heads=2)
        new = safetensors.torch.load_file(tmp_path / "b")
        for name, tensor in old.items():
            if "v_proj" not in name:
                tensor = pe.convert_layout(tensor, "half", "interleaved", head_dim=8, dim=-1)
            assert torch.equal(new[name], tensor)

    @pytest.mark.parametrize(("chunk", "many"), WAYS)
    @pytest.mark.parametrize("order", pairs.ORDERS)
    def test_fused_kernels_stored_in_out(self, tmp_path: Path, moved: None, order: Any) -> None:
        old = {"attn.c_attn": torch.randn(5, 64).bfloat16()}
        names = Names(columns="c_attn", order=order)
        options = {"rotary_dim": 6, "heads": 4, "kv_heads": 2}
        convert(save(tmp_path / "a", old), tmp_path / "b", names=names, **options)
        new = safetensors.torch.load_file(tmp_path / "b")
        fused = pe.FusedHeads(4, 2, order)
        options = {"head_dim": 8, "rotary_dim": 6, "fused": fused, "dim": -1}
        expected = pe.convert_layout(old["attn.c_attn"], "half", "interleaved", **options)
        assert torch.equal(new["attn.c_attn"], expected)
        assert not torch.equal(expected, old["attn.c_attn"])

    def test_norms_have_a_weight_for_each_dimension_or_for_each_head_too(
        self, tmp_path: Path
    ) -> None:
        """Cohere's are (heads, head_dim), OLMo's (heads * head_dim,); Persimmon fuses q, k, v."""
        layer = "model.layers.0.self_attn"
        shapes = {
            f"{layer}.query_key_value.weight": (3 * 8 * 8, 5),
            f"{layer}.query_key_value.bias": (3 * 8 * 8,),
            f"{layer}.q_layernorm.weight": (8, 8),
            f"{layer}.k_layernorm.bias": (8,),
            f"{layer}.k_norm.weight": (64,),
            "model.input_layernorm.weight": (8,),
        }
        old = {name: torch.randn(shape) for name, shape in shapes.items()}
        options = {"names": "gpt_neox", "heads": 8}
        changed = convert(save(tmp_path / "a", old), tmp_path / "b", **options)
        assert set(changed) == set(list(shapes)[:-1])
        new = safetensors.torch.load_file(tmp_path / "b")
        for name, tensor in old.items():
            options = {"fused": pe.FusedHeads(8, order="grouped")} if "value" in name else {}
            if name in changed:
                dim = 0 if "query" in name else -1
                options = {"head_dim": 8, "dim": dim, **options}
                tensor = pe.convert_layout(tensor, "half", "interleaved", **options)
            assert torch.equal(new[name], tensor)

    def test_latent_attention_turns_the_end_of_each_query_and_of_the_shared_key(
        self, tmp_path: Path
    ) -> None:
        q, kv = "layers.0.self_attn.q_b_proj.weight", "layers.0.self_attn.kv_a_proj_with_mqa.weight"
        old = {q: torch.randn(3 * 12, 5), kv: torch.randn(24 + 4, 5)}
        options = {"names": "deepseek", "head_dim": 12, "rotary_dim": 4, "heads": 3}
        assert set(convert(save(tmp_path / "a", old), tmp_path / "b", **options)) == {q, kv}
        new = safetensors.torch.load_file(tmp_path / "b")
        for name, head_dim in (q, 12), (kv, 28):
            expected = pe.convert_layout(
                *(old[name], "half", "interleaved"), head_dim=head_dim, rotary_dim=4, start=-4
            )
            assert torch.equal(new[name], expected)
            assert not torch.equal(new[name], old[name])

    @pytest.mark.parametrize(("chunk", "many"), WAYS)
    @pytest.mark.parametrize(
        ("names", "name", "order"),
        [
            ("gpt_neox", "gpt_neox.layers.3.attention.query_key_value.weight", "grouped"),
            ("phi3", "model.layers.3.self_attn.qkv_proj.weight", "concatenated"),
        ],
    )
    def test_fused_families_know_the_order_of_their_heads(
        self, tmp_path: Path, moved: None, names: str, name: str, order: Any
    ) -> None:
        old = {name: torch.randn(8 * 8, 5)}
        path = save(tmp_path / "a", old)
        convert(path, tmp_path / "b", names=names, heads=4, kv_heads=2)
        fused = pe.FusedHeads(4, 2, order)
        expected = pe.convert_layout(old[name], "half", "interleaved", head_dim=8, fused=fused)
        assert torch.equal(safetensors.torch.load_file(tmp_path / "b")[name], expected)
        with pytest.raises(SettingError, match="heads= is needed"):
            convert(path, tmp_path / "c", names=names)
        # The matrix would hold twice as many heads of half the size.
        with pytest.raises(ConversionError, match="8 heads of 4"):
            convert(path, tmp_path / "c", names=names, heads=4, kv_heads=2, head_dim=4)

    def test_meta_names(self, tmp_path: Path) -> None:
        old = {f"layers.0.attention.w{name}.weight": torch.randn(8, 3) for name in "qkvo"}
        changed = convert(save(tmp_path / "a", old), tmp_path / "b", names="meta")
        assert changed == ("layers.0.attention.wk.weight", "layers.0.attention.wq.weight")

    @pytest.mark.parametrize("names", ["llama", Names(columns="q_proj")])
    def test_memory_does_not_grow_with_the_file(self, tmp_path: Path, names: Any) -> None:
        """Two tensors of 24 MiB, one of them turned."""
        path = tmp_path / "big"
        entry = {"dtype": "F16", "shape": [1024, 12288]}
        size = 1024 * 12288 * 2
        header = {
            f"{name}_proj.weight": {**entry, "data_offsets": [i * size, (i + 1) * size]}
            for i, name in enumerate("qv")
        }
        text = json.dumps(header).encode()
        with path.open("wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + 2 * size)
        tracemalloc.start()
        convert(path, tmp_path / "out", head_dim=128, names=names)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 12 * 2**20

    def test_progress_reaches_the_size_of_the_file(self, tmp_path: Path) -> None:
        told: list[tuple[int, int]] = []
        path = save(tmp_path / "a", llama())
        convert(path, tmp_path / "b", progress=lambda *now: told.append(now))
        size = path.stat().st_size
        assert told[-1] == (size, size)
        assert told == sorted(told)


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
        assert set(convert(folder, out)) == {name for name in llama() if turns(name)}
        names = ["a.safetensors", "b.safetensors", "model.safetensors.index.json"]
        assert sorted(path.name for path in out.iterdir()) == names
        assert (out / names[2]).read_bytes() == (folder / names[2]).read_bytes()
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


def raw(header: bytes | dict[str, Any], data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: Any = "U8", shape: Any = (8,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


DAMAGED: dict[str, bytes] = {
    "ends after 0 bytes": b"",
    "ends after 3 bytes": b"abc",
    "claims 18446744073709551615 bytes": raw(b"{}", length=2**64 - 1),
    "claims 50 bytes, of a file of 10": raw(b"{}", length=50),
    "not JSON": raw(b"{nonsense"),
    "not JSON .*utf-8": raw(b'{"\xff": 1}'),
    "not JSON .*recursion": raw(b'{"a":' + b"[" * 100_000),
    "not JSON .*digits": raw(b'{"a": ' + b"1" * 10_000 + b"}"),
    "not JSON .*NaN is no number": raw(b'{"q": NaN}'),
    "not JSON .*surrogates": raw(b'{"\\ud800": 1}'),
    "not a JSON object": raw(b"[]"),
    "'q' is there twice": raw(b'{"q": 1, "p": 2, "q": 3}'),
    "__metadata__ does not map": raw({"__metadata__": {"a": 3}}),
    "lacks dtype, shape": raw({"q": {"dtype": "U8"}}),
    "lacks dtype, shape or": raw({"q": 3}),
    "unknown dtype 'F7'": raw({"q": entry(dtype="F7")}, bytes(8)),
    r"unknown dtype '\[1\]'": raw({"q": entry(dtype=[1])}, bytes(8)),
    "not whole numbers": raw({"q": entry(shape=[2, -4])}, bytes(8)),
    "shape or data_offsets that are": raw({"q": entry(shape=[True] * 8)}, bytes(8)),
    "a shape .* not whole": raw({"q": entry(shape=[8.0])}, bytes(8)),
    "or data_offsets that are not whole": raw({"q": entry(shape=[0, 2**64], offsets=[0, 0])}),
    "offsets that are not": raw({"q": entry(offsets=[0, 8, 9])}, bytes(8)),
    "outside of the file": raw({"q": entry(offsets=[0, 9], shape=[9])}, bytes(8)),
    "q' has data_offsets outside": raw({"q": entry(offsets=[8, 0])}, bytes(8)),
    "holds 8 bytes": raw({"q": entry(shape=[7])}, bytes(8)),
    "but holds 8": raw({"q": entry(dtype="F32")}, bytes(8)),
    r"is U8 of shape .*but": raw({"q": entry(shape=[2**60] * 100_000)}, bytes(8)),
    "'p' overlaps": raw({"q": entry(), "p": entry(offsets=[4, 12])}, bytes(12)),
    "'p' leaves a hole": raw({"q": entry(), "p": entry(offsets=[9, 17])}, bytes(17)),
    "end at byte .*, the file at": raw({"q": entry()}, bytes(9)),
}


class TestDamage:
    @pytest.mark.parametrize("message", DAMAGED)
    def test_a_damaged_file_is_refused_before_any_is_written(
        self, tmp_path: Path, message: str
    ) -> None:
        path = tmp_path / "a.safetensors"
        path.write_bytes(DAMAGED[message])
        with pytest.raises(ConversionError, match=message) as error:
            convert(path, tmp_path / "b.safetensors")
        assert str(path) in str(error.value)
        assert len(str(error.value)) < 600
        assert list(tmp_path.iterdir()) == [path]

    @given(st.data())
    def test_what_safetensors_refuses_is_refused(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        content = bytearray(safetensors.torch.save(llama()))
        length = 8 + int.from_bytes(content[:8], "little")
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(0, length - 1))
            content[place] = data.draw(st.sampled_from(b'0123456789{}[]",:Ft\x00\xff'))
        content = content[: len(content) - data.draw(st.sampled_from([0, 0, 1, 50]))]
        path = tmp_path_factory.mktemp("damaged") / "a"
        path.write_bytes(content)
        try:
            read_header(path)
        except ConversionError:
            return
        with safetensors.safe_open(path, "pt") as file:
            assert list(file.keys())

    def test_a_file_cut_while_it_is_read_leaves_nothing(self, tmp_path: Path) -> None:
        path = save(tmp_path / "a", llama())
        header = read_header(path)
        path.write_bytes(path.read_bytes()[:-100])
        with (tmp_path / "b").open("wb") as file, pytest.raises(ConversionError, match="changed"):
            stream.convert_file(header, {}, file, lambda _: None)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"head_dim": 12}, ConversionError, "dimension are not heads of 12"),
            ({"heads": 2, "kv_heads": 1}, ConversionError, "4 heads of 8, but Heads"),
            ({"heads": 4, "kv_heads": 1}, ConversionError, "2 heads of 8, but Heads"),
            ({"head_dim": 4, "heads": 4, "kv_heads": 2}, ConversionError, "heads of 4, but"),
            ({"rotary_dim": 3}, SettingError, "rotary_dim=3"),
            ({"rotary_dim": 10}, SettingError, "do not fit"),
            ({"rotary_dim": 4, "start": 5}, SettingError, "do not fit"),
            ({"rotary_dim": 4, "start": -9}, SettingError, "do not fit"),
            ({"rotary_dim": 4, "start": -3}, SettingError, "do not fit"),
            ({"head_dim": 7}, SettingError, "head_dim=7.* even"),
            ({"head_dim": 0}, SettingError, "head_dim=0"),
            ({"heads": 4, "kv_heads": 3}, SettingError, "multiple of kv_heads"),
            ({"kv_heads": 3}, SettingError, "without heads"),
            ({"names": "lama"}, UnknownNameError, "did you mean 'llama'"),
            ({"names": "meta", "head_dim": 16}, ConversionError, "are not heads of 16"),
            ({"names": "phi3"}, ConversionError, "no tensor of .* is named like"),
            ({"names": "deepseek"}, SettingError, "rotary_dim= is needed"),
            ({"names": Names("no such name")}, ConversionError, "no tensor of"),
        ],
    )
    def test_what_cannot_be_converted(
        self, tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
    ) -> None:
        path = save(tmp_path / "a", llama())
        with pytest.raises(error, match=message):
            convert(path, tmp_path / "b", **options)
        assert list(tmp_path.iterdir()) == [path]

    def test_a_whole_projection_is_no_head(self, tmp_path: Path) -> None:
        path = save(tmp_path / "a", {"q_proj.weight": torch.randn(32, 12)})
        with pytest.raises(ConversionError, match="make 1 heads of 32, but"):
            convert(path, tmp_path / "b", head_dim=32, heads=4)

    @pytest.mark.parametrize(
        "part", ["qweight", "weight_scale_inv", "weight.absmax", "lora_B.weight.absmax"]
    )
    def test_packed_weights_are_refused_not_left_as_they_are(
        self, tmp_path: Path, part: str
    ) -> None:
        old = {"a.q_proj.weight": torch.randn(8, 2), f"a.q_proj.{part}": torch.randn(2, 8)}
        with pytest.raises(ConversionError, match=r"q_proj.*how to convert it is not known"):
            convert(save(tmp_path / "a", old), tmp_path / "b")

    def test_places(self, tmp_path: Path) -> None:
        path = save(tmp_path / "a", llama())
        link = tmp_path / "link"
        link.symlink_to(path)
        (tmp_path / "there").write_text("precious")
        places = {
            path: "the checkpoint itself",
            link: "the checkpoint itself",
            tmp_path / "there": "exists already",
            tmp_path / "no" / "folder": "there is no folder",
        }
        for out, message in places.items():
            with pytest.raises(ConversionError, match=message):
                convert(path, out)
        with pytest.raises(ConversionError, match="is not a file"):
            convert(tmp_path / "missing", tmp_path / "b")
        with pytest.raises(SettingError, match="changes nothing"):
            pe.convert_checkpoint(path, tmp_path / "b", "half", "half", head_dim=8)
        assert (tmp_path / "there").read_text() == "precious"
        assert len(list(tmp_path.iterdir())) == 3

    def test_a_full_disk_is_seen_before_writing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = save(tmp_path / "a", llama())

        class Usage:
            free = 10

        monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: Usage)
        with pytest.raises(ConversionError, match="10 free"):
            convert(path, tmp_path / "b")


OPTIONS = ("--from", "half", "--to", "interleaved", "--head-dim", "8")


def run_after(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    """What becomes of `posenc convert` of `path` in a process that runs this first."""
    program = f"{program}\nfrom posenc.cli import main\nmain()"
    command = [sys.executable, "-c", program, "convert", str(path), str(path.with_name("b"))]
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
        ended = CliRunner().invoke(app, ["convert", *other])
        assert "1 tensors from half to interleaved" in ended.stdout.replace("\n", " ")

    def test_columns(self, tmp_path: Path) -> None:
        old = {"q": torch.randn(3, 16), "k": torch.randn(16, 3)}
        path, out = save(tmp_path / "a", old), tmp_path / "b"
        found = ["--columns", "q", "--pattern", "k"]
        ended = CliRunner().invoke(app, ["convert", str(path), str(out), *OPTIONS, *found])
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
