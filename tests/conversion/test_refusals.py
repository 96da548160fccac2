"""What cannot be converted as it was asked, and where nothing may be written."""

from pathlib import Path
from typing import Any

import pytest
import torch

import posenc as pe
from posenc.conversion import checkpoint
from posenc.conversion.names import Names
from posenc.errors import ConversionError, SettingError, UnknownNameError
from tests.conversion.checkpoints import convert, llama, save


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"head_dim": 12}, ConversionError, "dimension are not heads of 12"),
            ({"heads": 2, "kv_heads": 1}, ConversionError, "2 heads of 8, but heads="),
            ({"heads": 2}, ConversionError, "4 heads of 8, but heads="),
            ({"heads": 4, "kv_heads": 1}, ConversionError, "2 heads of 8, but heads="),
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

    @pytest.mark.parametrize("left", ["q_proj.bias", "k_norm.weight"])
    def test_names_that_leave_a_bias_or_a_norm_behind(self, tmp_path: Path, left: str) -> None:
        """As --pattern for the text of a model with a vision tower, beside Qwen3's norms."""
        attention = "language_model.layers.0.self_attn"
        tensors = {f"{attention}.{x}_proj.weight": torch.randn(16, 5) for x in "qk"}
        path = save(tmp_path / "a", tensors | {f"{attention}.{left}": torch.randn(8)})
        with pytest.raises(ConversionError, match=rf"{left}.* belongs to '{attention}\.[qk]_proj"):
            convert(path, tmp_path / "b", names=Names(r"[qk]_proj\.weight$"))
        with pytest.raises(
            ConversionError, match=r"k_(?:proj|norm)\.weight.* belongs to .*q_proj.weight'"
        ):
            convert(path, tmp_path / "b", names=Names(r"q_proj\.(weight|bias)$|q_norm"))
        assert list(tmp_path.iterdir()) == [path]
        columns = r"q_proj\.bias$|[qk]_norm\.weight$"
        changed = convert(path, tmp_path / "b", names=Names(r"[qk]_proj\.weight$", columns))
        assert len(changed) == 3
        convert(path, tmp_path / "c", names=Names(r"[qk]_proj\.weight$", kept=columns))

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

    def test_a_place_that_was_taken_meanwhile(self, tmp_path: Path) -> None:
        path, out = save(tmp_path / "a", llama()), tmp_path / "b"
        with pytest.raises(ConversionError, match="nothing of it is left: File exists"):
            convert(path, out, progress=lambda *_: out.write_text("precious"))
        assert out.read_text() == "precious"
        assert sorted(tmp_path.iterdir()) == [path, out]

    def test_messages_do_not_quote_long_names_whole(self, tmp_path: Path) -> None:
        name = "x" * 100_000
        for tensors in ({name: torch.zeros(8)}, {f"{name}.q_proj.weight": torch.zeros(9, 2)}):
            path = save(tmp_path / "a", tensors)
            with pytest.raises(ConversionError, match="'xxx") as error:
                convert(path, tmp_path / "b")
            assert len(str(error.value)) < 600

    def test_a_full_disk_is_seen_before_writing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = save(tmp_path / "a", llama())

        class Usage:
            free = 10

        monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: Usage)
        with pytest.raises(ConversionError, match="10 free"):
            convert(path, tmp_path / "b")
