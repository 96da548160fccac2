"""The header of a safetensors file, read and checked without trusting a byte of it.

    8 bytes      length n of the header, little-endian
    n bytes      JSON: {"name": {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}, ...}
    the rest     the tensors, end to end, without holes

Source: github.com/huggingface/safetensors, section "Format" of its README.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.errors import ConversionError, shown

# The format's own limit, so that a hostile length cannot ask for the machine's memory.
MAX_HEADER = 100_000_000

BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8"), 8),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}

# What other formats of checkpoints begin with, and what to do with them.
FORMATS = {
    b"PK\x03\x04": "a file of torch.save: load it and save its tensors with safetensors first",
}


@dataclass(frozen=True)
class Entry:
    """One tensor of the file; begin and end are counted from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    def __str__(self) -> str:
        return f"{shown(self.name)} {self.dtype}{shown(list(self.shape))}"

    @property
    def elements(self) -> int:
        return (self.end - self.begin) * 8 // BITS[self.dtype]


@dataclass(frozen=True)
class Header:
    """What a file holds: its tensors in the order of their data, which begins at `data`."""

    path: Path
    entries: tuple[Entry, ...]
    data: int
    size: int


def read_header(path: Path) -> Header:
    """The header of the file, or a ConversionError that says what is wrong with it."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            prefix = file.read(8)
            if prefix.startswith(b"GGUF"):
                # Imported here, for what reads the file needs this module.
                from posenc.conversion.gguf import refusal

                raise ConversionError(refusal(path))
            for magic, advice in FORMATS.items():
                if prefix.startswith(magic):
                    raise ConversionError(f"{path} is {advice}")
            if len(prefix) < 8:
                raise _damaged(path, f"it ends after {len(prefix)} bytes, within the header length")
            length = int.from_bytes(prefix, "little")
            if length > min(MAX_HEADER, size - 8):
                raise _damaged(
                    path, f"its header claims {length} bytes, of a file of {size} bytes in all"
                )
            text = file.read(length)
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror or error}") from None
    data = 8 + length
    parsed = _parse(path, text)
    entries = [_entry(path, name, value, data, size) for name, value in parsed.items()]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    reached = data
    for entry in entries:
        if entry.begin != reached:
            kind = "overlaps" if entry.begin < reached else "leaves a hole after"
            raise _damaged(path, f"the data of {shown(entry.name)} {kind} what comes before it")
        reached = entry.end
    if reached != size:
        raise _damaged(path, f"its tensors end at byte {reached}, the file at byte {size}")
    return Header(path, tuple(entries), data, size)


def _parse(path: Path, text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        parsed = dict(pairs)
        # Half a surrogate is JSON, but no text that could be shown or written.
        "".join(parsed).encode()
        if len(parsed) != len(pairs):
            (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
            raise ValueError(f"{shown(twice)} is there twice")
        return parsed

    try:
        parsed = json.loads(text.decode(), object_pairs_hook=unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its header is not JSON ({error})") from None
    if not isinstance(parsed, dict):
        raise _damaged(path, "its header is not a JSON object")
    # null stands for none; [], "", 0 and false are refused by safetensors too.
    metadata = parsed.pop("__metadata__", None)
    texts = metadata.values() if isinstance(metadata, dict) else () if metadata is None else [0]
    if not all(isinstance(text, str) for text in texts):
        raise _damaged(path, "its __metadata__ does not map text to text")
    return parsed


def _no_number(constant: str) -> None:
    # Python reads NaN and Infinity, which are no JSON.
    raise ValueError(f"{constant} is no number")


def _entry(path: Path, name: str, value: Any, data: int, size: int) -> Entry:
    quoted = shown(name)
    if not isinstance(value, dict) or not {"dtype", "shape", "data_offsets"} <= value.keys():
        raise _damaged(path, f"{quoted} lacks dtype, shape or data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _damaged(path, f"{quoted} has the unknown dtype {shown(str(dtype))}")
    if not _whole(shape) or not _whole(offsets) or len(offsets) != 2:
        raise _damaged(path, f"{quoted} has a shape or data_offsets that are not whole numbers")
    begin, end = (data + offset for offset in offsets)
    if not begin <= end <= size:
        raise _damaged(path, f"{quoted} has data_offsets outside of the file's {size} bytes")
    entry = Entry(name, dtype, tuple(shape), begin, end)
    if _bits(shape, BITS[dtype], limit=8 * size) != 8 * (end - begin):
        raise _damaged(path, f"{entry}, but holds {end - begin} bytes")
    return entry


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value < 2**64 for value in values
    )


def _bits(shape: list[int], bits: int, limit: int) -> int | None:
    """Bits of a tensor, or None where they are more than the limit."""
    if 0 in shape:
        return 0
    for extent in shape:
        bits *= extent
        # Left early, for the product of a hostile shape takes forever.
        if bits > limit:
            return None
    return bits


def _damaged(path: Path, why: str) -> ConversionError:
    return ConversionError(f"{path} is not a whole safetensors file: {why}")
