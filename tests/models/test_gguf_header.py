"""The header of a GGUF file is read whole, quickly, and never believed."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc.errors import ConfigError
from posenc.models.read.gguf.header import Skipped, Tensor, read_gguf_header
from tests.support.gguf_files import Typed, gguf_bytes, text
from tests.support.gguf_installed import gguf_package
from tests.support.trained import smollm2_gguf

VALUES = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.rope.freq_base": 10_000.0,
    "llama.attention.causal": True,
    "llama.attention.head_count_kv": (1, 2),
    "tokenizer.ggml.tokens": ("a", "longer", ""),
    "a.signed": Typed(11, -5),
    "a.double": Typed(12, 0.1),
}
ROWS = {"rope_freqs.weight": (1.0, 2.0, 8.0), "other.weight": (0.5,)}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


@pytest.mark.parametrize("version", [2, 3])
def test_every_type_of_value_is_read(place: Path, version: int) -> None:
    place.write_bytes(gguf_bytes(VALUES, ROWS, version))
    header = read_gguf_header(place)
    assert header.version == version
    assert header.values == {
        **VALUES,
        "tokenizer.ggml.tokens": Skipped(3),
        "a.signed": -5,
        "a.double": 0.1,
    }
    assert header.tensors["other.weight"] == Tensor((1,), 0, 32)
    assert header.numbers("rope_freqs.weight") == ROWS["rope_freqs.weight"]
    assert header.numbers("other.weight") == (0.5,)


def test_what_is_long_is_skipped(place: Path) -> None:
    """Beyond a block of the file, so that the cursor has to move on."""
    many = tuple("token" * (i % 7) for i in range(100_000))
    values = {"tokens": many, "scores": (0.5,) * 20_000, "template": "x" * 70_000, "after": 7}
    place.write_bytes(gguf_bytes(values))
    assert read_gguf_header(place).values == {
        "tokens": Skipped(100_000),
        "scores": Skipped(20_000),
        "template": Skipped(70_000),
        "after": 7,
    }


def test_a_file_that_ends_anywhere_is_refused(place: Path) -> None:
    whole = gguf_bytes(VALUES, ROWS)
    place.write_bytes(whole)
    header = read_gguf_header(place)
    for length in range(len(whole)):
        place.write_bytes(whole[:length])
        if length < header.data - 31:
            with pytest.raises(ConfigError, match="GGUF file"):
                read_gguf_header(place)
        elif length < header.data + 12:
            with pytest.raises(ConfigError, match="ends"):
                read_gguf_header(place).numbers("rope_freqs.weight")


def _one(key: bytes, kind: int, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(key) + struct.pack("<I", kind) + rest


HUGE = struct.pack("<Q", 1 << 62)
HOSTILE = {
    "another format": (b"GGML" + bytes(60), "no GGUF file: it begins with b'GGML'"),
    "an empty file": (b"", "no GGUF file"),
    "version 1": (b"GGUF" + struct.pack("<III", 1, 0, 0) + bytes(50), "version 1: only 2 and 3"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
    "keys": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60) + bytes(99),
        "claims 1152921504606846976 k",
    ),
    "tensors": (b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0) + bytes(99), "claims 1099511627776 t"),
    "a long name": (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + HUGE + bytes(99), "a key's name has"),
    "a long string": (_one(b"k", 8, HUGE + bytes(99)), "claims 4611686018427387904 bytes"),
    "a long array": (_one(b"k", 9, struct.pack("<I", 4) + HUGE), "claims 18446744073709551616 b"),
    "many strings": (_one(b"k", 9, struct.pack("<I", 8) + HUGE), "claims 46116860184273879"),
    "a long string in an array": (
        _one(b"k", 9, struct.pack("<IQ", 8, 2) + HUGE + bytes(64)),
        "within its header",
    ),
    "an array of arrays": (_one(b"k", 9, struct.pack("<IQ", 9, 1) * 99), "array of arrays"),
    "an unknown type": (_one(b"k", 13, bytes(9)), "unknown type 13"),
    "an array of an unknown type": (_one(b"k", 9, struct.pack("<IQ", 99, 1)), "unknown type 99"),
    "a key that is no text": (_one(b"\xff\xfe", 4, bytes(9)), "not UTF-8"),
    "a value that is no text": (_one(b"k", 8, text(b"\xc3(")), "not UTF-8"),
    "an odd alignment": (gguf_bytes({"general.alignment": 3}), "general.alignment is 3"),
    "an alignment of 0": (gguf_bytes({"general.alignment": 0}), "general.alignment is 0"),
    "a key twice": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + 2 * (text("k") + struct.pack("<II", 4, 1)),
        "'k' is there twice",
    ),
    "a tensor twice": (
        b"GGUF" + struct.pack("<IQQ", 3, 2, 0) + 2 * (text("t") + struct.pack("<IQIQ", 1, 1, 0, 0)),
        "tensor 't' is there twice",
    ),
    "many dimensions": (
        b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("t") + struct.pack("<I", 1 << 31) + bytes(99),
        "2147483648 dimensions",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_gets_one_line(name: str, place: Path) -> None:
    content, message = HOSTILE[name]
    place.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        read_gguf_header(place)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(place)) + 250


def test_a_sparse_file_of_a_terabyte_is_not_read(place: Path) -> None:
    """Its size bears out what it claims, and nothing of it is there."""
    with place.open("wb") as file:
        file.write(_one(b"k", 9, struct.pack("<IQ", 8, 1 << 36)))
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match="68719476736 strings"):
        read_gguf_header(place)


@pytest.mark.parametrize(("kind", "shape"), [(1, (4,)), (0, (2, 2)), (0, (0,)), (0, (1 << 40,))])
def test_only_a_row_of_float32_has_numbers(place: Path, kind: int, shape: tuple[int, ...]) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("rope_freqs.weight")
    head += struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)
    place.write_bytes(head + bytes(512))
    header = read_gguf_header(place)
    with pytest.raises(ConfigError, match=r"rope_freqs.weight is of type"):
        header.numbers("rope_freqs.weight")


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_damage_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(gguf_bytes(VALUES, ROWS))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    place = tmp_path_factory.getbasetemp() / "damaged.gguf"
    place.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        header = read_gguf_header(place)
        for name in header.tensors:
            header.numbers(name)
    except ConfigError:
        pass


@pytest.mark.trained
def test_the_real_header_is_what_ggufs_own_reader_says() -> None:
    path = smollm2_gguf()
    header, theirs = read_gguf_header(path), gguf_package().GGUFReader(path)
    own = {name for name in theirs.fields if not name.startswith("GGUF.")}
    assert set(header.values) == own
    for name, value in header.values.items():
        said = theirs.fields[name].contents()
        assert (value.count == len(said)) if isinstance(value, Skipped) else value == said
    assert header.data == theirs.data_offset
    assert list(header.tensors) == [x.name for x in theirs.tensors]
    for x in theirs.tensors:
        at = x.data_offset - theirs.data_offset
        assert header.tensors[x.name] == Tensor(tuple(map(int, x.shape)), int(x.tensor_type), at)


@pytest.mark.parametrize("endian", ["LITTLE", "BIG"])
def test_what_ggufs_own_writer_writes_is_read(place: Path, endian: str) -> None:
    gguf = gguf_package()
    writer = gguf.GGUFWriter(place, "llama", endianess=gguf.GGUFEndian[endian])
    writer.add_block_count(2)
    writer.add_rope_freq_base(5e5)
    writer.add_head_count_kv([1, 2])
    writer.add_sliding_window_pattern([True, False])
    writer.add_token_list(["a", "b", ""])
    writer.add_custom_alignment(64)
    rows = np.arange(1, 33, dtype=np.float32)
    writer.add_tensor("other.weight", np.ones((3, 5), dtype=np.float32))
    writer.add_tensor("rope_freqs.weight", rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if endian == "BIG":
        with pytest.raises(ConfigError, match="big-endian"):
            read_gguf_header(place)
        return
    header = read_gguf_header(place)
    assert header.values["llama.attention.head_count_kv"] == (1, 2)
    assert header.values["llama.attention.sliding_window_pattern"] == (True, False)
    assert header.values["tokenizer.ggml.tokens"] == Skipped(3)
    assert header.values["llama.rope.freq_base"] == 5e5
    assert header.tensors["other.weight"].shape == (5, 3)
    assert header.numbers("rope_freqs.weight") == tuple(rows.tolist())
