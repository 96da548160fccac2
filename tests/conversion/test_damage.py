"""Damaged and hostile files are refused before anything is written."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
from hypothesis import given
from hypothesis import strategies as st

from posenc.conversion import stream
from posenc.conversion.header import read_header
from posenc.errors import ConversionError
from tests.conversion.checkpoints import convert, llama, save
from tests.support.gguf_files import sizes, write_gguf


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
    "__metadata__ does not map text": raw({"__metadata__": []}),
    "__metadata__ does not map text to": raw({"__metadata__": ""}),
    "__metadata__ does not map text to text": raw({"__metadata__": 0}),
    "its __metadata__ does not map text to text": raw({"__metadata__": False}),
    r"'q+\.\.\.q+' lacks dtype": raw({"q" * 100_000: 3}),
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
    r"U8\[.*but": raw({"q": entry(shape=[2**60] * 100_000)}, bytes(8)),
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

    @pytest.mark.parametrize(
        ("begin", "advice"),
        [
            (b"GGUF\x03\x00\x00\x00", "GGUF.*the safetensors files that it was made from"),
            (b"PK\x03\x04", "torch.save: load it and save"),
        ],
    )
    def test_other_formats_are_told_what_to_do(
        self, tmp_path: Path, begin: bytes, advice: str
    ) -> None:
        path = tmp_path / "model.gguf"
        path.write_bytes(begin + bytes(50))
        with pytest.raises(ConversionError, match=advice):
            convert(path, tmp_path / "out")

    @pytest.mark.parametrize(
        ("architecture", "said"),
        [
            (
                "llama",
                "interleaved, permuted by llama.cpp's converter if they came from transformers",
            ),
            ("command-r", "interleaved, as in the files that it was made from"),
            ("qwen2", "half, as in the files that it was made from"),
            ("gpt2", "nothing turns"),
            ("bloom", "nothing turns"),
        ],
    )
    def test_a_gguf_file_is_told_what_its_layout_is(
        self, tmp_path: Path, architecture: str, said: str
    ) -> None:
        (tmp_path / "model").mkdir()
        path = write_gguf(tmp_path / "model" / "a.gguf", architecture, sizes(2, 64, 4, 128))
        for place in (path, path.parent):
            with pytest.raises(ConversionError, match=f"GGUF file of '{architecture}'.*{said}"):
                convert(place, tmp_path / "out")

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
