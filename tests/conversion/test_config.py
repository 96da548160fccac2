"""The config.json beside a checkpoint decides what a head is, or refuses what was asked."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import posenc as pe
from posenc.conversion.config import Geometry, read_config
from posenc.errors import ConversionError, SettingError
from tests.conversion.checkpoints import convert, llama, save

HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}


def model(folder: Path, **config: Any) -> Path:
    """Four heads of queries and two of keys, all of 8 dimensions."""
    save(folder / "model.safetensors", llama())
    (folder / "config.json").write_text(json.dumps(config))
    return folder


class TestHeads:
    @pytest.mark.parametrize("size", [{"head_dim": 8}, {"hidden_size": 32}])
    def test_its_head_dimension_is_taken(self, tmp_path: Path, size: dict[str, int]) -> None:
        folder = model(tmp_path / "model", **size, **HEADS)
        convert(folder, tmp_path / "out", head_dim=None)
        convert(folder / "model.safetensors", tmp_path / "alone", head_dim=None)
        # Beside no config.json; the same file, for each that is saved orders its metadata anew.
        (tmp_path / "other").mkdir()
        copy = shutil.copy(folder / "model.safetensors", tmp_path / "other" / "a")
        convert(copy, tmp_path / "other" / "b")
        expected = (tmp_path / "other" / "b").read_bytes()
        assert (tmp_path / "out" / "model.safetensors").read_bytes() == expected
        assert (tmp_path / "alone").read_bytes() == expected

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({"head_dim": 4}, r"head_dim=4 was given, but .*config\.json says 8"),
            ({"head_dim": 16}, "head_dim=16 was given"),
            ({"heads": 2}, "heads=2 was given"),
            ({"heads": 4, "kv_heads": 4}, "kv_heads=4 was given"),
        ],
    )
    def test_what_contradicts_it_is_refused(
        self, tmp_path: Path, asked: dict[str, int], message: str
    ) -> None:
        """A head of 4 or 16 divides every tensor, and would destroy the model without a word."""
        folder = model(tmp_path / "model", hidden_size=32, **HEADS)
        with pytest.raises(ConversionError, match=message):
            convert(folder, tmp_path / "out", **{"head_dim": None, **asked})
        assert list(tmp_path.iterdir()) == [folder]

    def test_tensors_are_held_to_its_heads(self, tmp_path: Path) -> None:
        folder = model(tmp_path / "model", head_dim=8, num_attention_heads=8)
        with pytest.raises(ConversionError, match="make 2 heads of 8, but heads="):
            convert(folder, tmp_path / "out", head_dim=None)

    def test_queries_are_not_held_to_the_heads_of_keys(self, tmp_path: Path) -> None:
        """LLaVA-NeXT and Pixtral: the tower's 16 heads of 64 are as wide as 8 keys of 128."""
        tower = {f"vision_tower.{x}_proj.weight": torch.randn(16, 5) for x in "qk"}
        save(tmp_path / "model" / "model.safetensors", llama() | tower)
        config = {"text_config": {"head_dim": 8, **HEADS}, "vision_config": {"hidden_size": 16}}
        (tmp_path / "model" / "config.json").write_text(json.dumps(config))
        with pytest.raises(ConversionError, match=r"vision_tower\.q_proj.*make 2 heads of 8, but"):
            convert(tmp_path / "model", tmp_path / "out", head_dim=None)

    def test_without_it_the_head_dimension_is_asked_for(self, tmp_path: Path) -> None:
        path = save(tmp_path / "a", llama())
        with pytest.raises(SettingError, match=r"head_dim= is needed: no .*config\.json"):
            convert(path, tmp_path / "b", head_dim=None)

    def test_partial_rotary_is_taken_from_it(self, tmp_path: Path) -> None:
        folder = model(tmp_path / "model", head_dim=8, partial_rotary_factor=0.5, **HEADS)
        changed = convert(folder, tmp_path / "out", head_dim=None)
        new = safetensors.torch.load_file(tmp_path / "out" / "model.safetensors")
        for name in changed:
            options = {"head_dim": 8, "rotary_dim": 4}
            expected = pe.convert_layout(llama()[name], "half", "interleaved", **options)
            assert torch.equal(new[name], expected)

    def test_latent_attention_needs_its_own_names(self, tmp_path: Path) -> None:
        latent = {"qk_nope_head_dim": 4, "qk_rope_head_dim": 4}
        folder = model(tmp_path / "model", **latent, num_attention_heads=4)
        with pytest.raises(SettingError, match=r"names='llama'.*MLA.*'deepseek'"):
            convert(folder, tmp_path / "out", head_dim=None)


# A model whose type says how much of a head rotates.
PHI = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
    "rope_theta": 1e4,
}
FALCON = {"model_type": "falcon", "new_decoder_architecture": True, "multi_query": True, **PHI}
CHATGLM = {
    "model_type": "chatglm",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_layers": 2,
    "seq_length": 64,
    "kv_channels": 8,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
}


class TestFused:
    """Matrices of one name whose heads are in other orders, which no shape tells apart."""

    def test_other_orders_of_its_name_are_refused(self, tmp_path: Path) -> None:
        name = "transformer.encoder.layers.0.self_attention.query_key_value.weight"
        old = torch.randn(8 * 8, 5)
        path = save(tmp_path / "model" / "model.safetensors", {name: old})
        (path.parent / "config.json").write_text(json.dumps(CHATGLM))
        options = {"head_dim": None, "kv_heads": 2}
        with pytest.raises(SettingError, match=r"grouped: .* has them concatenated.*'chatglm'"):
            convert(path.parent, tmp_path / "out", names="gpt_neox", **options)
        convert(path.parent, tmp_path / "out", names="chatglm", **options)
        new = safetensors.torch.load_file(tmp_path / "out" / "model.safetensors")[name]
        heads = {"head_dim": 8, "rotary_dim": 4, "fused": pe.FusedHeads(4, 2)}
        assert torch.equal(new, pe.convert_layout(old, "half", "interleaved", **heads))

    def test_codegen_has_none_that_names_tell(self, tmp_path: Path) -> None:
        """Taken for Phi-3's, its values were reordered, and logits of about 1 changed by 0.8."""
        name = "transformer.h.0.attn.qkv_proj.weight"
        path = save(tmp_path / "model" / "model.safetensors", {name: torch.randn(12 * 8, 32)})
        config = {"model_type": "codegen", "n_embd": 32, "n_head": 4, "n_layer": 2, "rotary_dim": 4}
        (path.parent / "config.json").write_text(json.dumps(config))
        with pytest.raises(SettingError, match="four blocks of queries, values and keys"):
            convert(path.parent, tmp_path / "out", names="phi3", head_dim=None)
        assert list(tmp_path.iterdir()) == [path.parent]


class TestReading:
    @pytest.mark.parametrize("kind", ["Llama", "Qwen3", "Gemma2", "Phi3", "GPTNeoX", "DeepseekV3"])
    def test_those_of_transformers(self, tmp_path: Path, kind: str) -> None:
        transformers = pytest.importorskip("transformers")
        config = getattr(transformers, f"{kind}Config")()
        config.save_pretrained(tmp_path)
        known = read_config(tmp_path / "config.json")
        assert known.heads == config.num_attention_heads
        if kind == "DeepseekV3":
            assert known == Geometry(192, 64, 128, None, latent=True)
            return
        assert known.head_dim == (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        assert known.kv_heads == getattr(config, "num_key_value_heads", None)
        share = {"GPTNeoX": known.head_dim // 4, "Phi3": known.head_dim}
        assert known.rotary_dim == share.get(kind)

    @pytest.mark.parametrize(
        ("config", "known"),
        [
            ({}, Geometry()),
            ({"text_config": {"head_dim": 8}, "head_dim": 4}, Geometry(8)),
            ({"n_embd": 32, "n_head": 4, "rotary_dim": 4}, Geometry(8, 4, 4)),
            ({"head_dim": 8, "rotary_pct": 0.25}, Geometry(8, 2)),
            ({"head_dim": 8, "rotary_emb_fraction": 0.5}, Geometry(8, 4)),
            (
                {
                    "head_dim": 8,
                    "rope_parameters": {
                        "full_attention": {"partial_rotary_factor": 0.5},
                        "sliding_attention": {"partial_rotary_factor": 0.5},
                    },
                },
                Geometry(8, 4),
            ),
            ({**PHI, "model_type": "phi"}, Geometry(8, 4, 4)),
            ({**PHI, "model_type": "gpt_neox"}, Geometry(8, 2, 4)),
            ({**PHI, "model_type": "llama"}, Geometry(8, None, 4)),
            ({**FALCON, "num_kv_heads": 2}, Geometry(8, None, 4, 2)),
            ({**FALCON, "new_decoder_architecture": False}, Geometry(8, None, 4, 1)),
            (CHATGLM, Geometry(8, 4, 4, 2, order="concatenated")),
            # Proportional rotary pairs over the whole head, whatever share of it rotates.
            (
                {
                    "head_dim": 8,
                    "rope_parameters": {"rope_type": "proportional", "partial_rotary_factor": 0.5},
                },
                Geometry(8),
            ),
        ],
    )
    def test_other_words_for_the_same(
        self, tmp_path: Path, config: dict[str, Any], known: Geometry
    ) -> None:
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert read_config(tmp_path / "config.json") == known

    @pytest.mark.parametrize("kind", ["MiMoV2Flash", "Laguna"])
    def test_kinds_of_layers(self, tmp_path: Path, kind: str) -> None:
        transformers = pytest.importorskip("transformers")
        if not hasattr(transformers, f"{kind}Config"):
            pytest.skip(f"this transformers has no {kind}")
        getattr(transformers, f"{kind}Config")().save_pretrained(tmp_path)
        if kind == "MiMoV2Flash":
            assert read_config(tmp_path / "config.json") == Geometry(192, 64, 64, 4)
            return
        with pytest.raises(ConversionError, match="layers rotate different parts"):
            read_config(tmp_path / "config.json")

    def test_layers_that_differ_are_refused_without_a_type(self, tmp_path: Path) -> None:
        kinds = {"full_attention": {"partial_rotary_factor": 0.5}, "sliding_attention": {}}
        (tmp_path / "config.json").write_text(json.dumps({"head_dim": 8, "rope_parameters": kinds}))
        with pytest.raises(ConversionError, match="layers rotate different parts"):
            read_config(tmp_path / "config.json")

    @pytest.mark.parametrize(
        "text",
        [
            *("[]", "nonsense", '{"head_dim": "x"}', '{"head_dim": 0}', '{"head_dim": true}'),
            '{"head_dim": 8, "partial_rotary_factor": 1e308}',
        ],
    )
    def test_a_damaged_one_is_refused(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ConversionError, match=r"config\.json"):
            read_config(tmp_path / "config.json")


def test_the_rest_of_the_folder_is_copied_without_other_weights(tmp_path: Path) -> None:
    folder = model(tmp_path / "model", head_dim=8)
    for name in ("tokenizer.json", "pytorch_model.bin", "consolidated.safetensors"):
        (folder / name).write_text(name)
    (folder / "original").mkdir()
    convert(folder, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"model.safetensors", "config.json", "tokenizer.json"}
    assert (tmp_path / "out" / "tokenizer.json").read_text() == "tokenizer.json"
