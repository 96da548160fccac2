"""One safetensors file into the other layout, however its tensors are stored."""

import json
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch

import posenc as pe
from posenc.conversion import pairs, stream
from posenc.conversion.names import Names
from posenc.errors import ConversionError, SettingError
from tests.conversion.checkpoints import bits, convert, llama, rotates, save

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
        assert {name for name in old if rotates(name)} == set(changed)
        new = safetensors.torch.load_file(out)
        assert list(new) == list(safetensors.torch.load_file(path))
        for name, tensor in old.items():
            if rotates(name):
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
        """Cohere's are (heads, head_dim), OLMo's (heads * head_dim,), StableLM's one each.

        Persimmon fuses q, k, v.
        """
        layer = "model.layers.0.self_attn"
        shapes = {
            f"{layer}.query_key_value.weight": (3 * 8 * 8, 5),
            f"{layer}.query_key_value.bias": (3 * 8 * 8,),
            f"{layer}.q_layernorm.weight": (8, 8),
            f"{layer}.k_layernorm.bias": (8,),
            f"{layer}.k_norm.weight": (64,),
            f"{layer}.q_layernorm.norms.7.weight": (8,),
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

    def test_latent_attention_rotates_the_end_of_each_query_and_of_the_shared_key(
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
        """Two tensors of 24 MiB, one of them reordered."""
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
