"""The header of a GGUF file, read and checked without trusting a byte of it.

    4 bytes      "GGUF"
    u32          version, 2 or 3
    u64, u64     how many tensors, how many keys
    each key     its name, the type of its value, the value
    each tensor  its name, how many dimensions, the dimensions, its type, its offset in the data
    the rest     the tensors' data, aligned to general.alignment bytes (32)

Numbers are little-endian, a string is its length (u64) and its bytes, an array the type of its
elements (u32), how many (u64), and they.

Source: github.com/ggml-org/ggml, docs/gguf.md.
"""

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from posenc.errors import ConfigError, shown

MAGIC = b"GGUF"
# Each of them is beyond any published file, and below what would keep a machine busy.
MOST_KEYS, MOST_TENSORS, MOST_STRINGS = 1 << 16, 1 << 18, 1 << 24
# Strings and arrays beyond these are skipped: a chat template, the tokens, their scores.
KEPT_BYTES, KEPT_NUMBERS = 1 << 16, 1 << 14
LONGEST_NAME = (1 << 16) - 1
MOST_DIMENSIONS = 4
_BLOCK = 1 << 20

_NUMBERS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_F32 = 0


@dataclass(frozen=True)
class Skipped:
    """A value that is too long to keep: how many bytes or elements it has."""

    count: int


@dataclass(frozen=True)
class Tensor:
    """Where a tensor lies: offset counts from the start of the data, the last axis comes first."""

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True)
class GGUFHeader:
    """What a file says of itself; the tensors' data begin at byte `data` of `size`."""

    path: Path
    version: int
    values: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    data: int
    size: int

    def numbers(self, name: str) -> tuple[float, ...]:
        """The data of a small tensor of float32, such as rope_freqs.weight."""
        tensor = self.tensors[name]
        count = tensor.shape[0] if len(tensor.shape) == 1 else 0
        if tensor.kind != _F32 or not 0 < count <= KEPT_NUMBERS:
            raise ConfigError(
                f"{self.path}: {name} is of type {tensor.kind} and shape {list(tensor.shape)}: a "
                f"row of 1 to {KEPT_NUMBERS} float32 (type {_F32}) is needed"
            )
        begin = self.data + tensor.offset
        if begin + 4 * count > self.size:
            raise _damaged(self.path, f"{name} ends behind the file's {self.size} bytes")
        with self.path.open("rb") as file:
            file.seek(begin)
            content = file.read(4 * count)
        if len(content) < 4 * count:
            raise _damaged(self.path, f"it ends within {name}")
        return struct.unpack(f"<{count}f", content)


def is_gguf(path: Path) -> bool:
    """Whether this file begins as a GGUF file does."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        # ValueError for a name that no file can have.
        return False


def read_gguf_header(path: Path) -> GGUFHeader:
    """The header of the file, or a ConfigError that says what is wrong with it."""
    try:
        with path.open("rb") as file:
            return _header(_Bytes(path, file), path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None


class _Bytes:
    """The file from its start on, a block at a time; what it claims is held to its size."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.file = path, file
        self.size = os.fstat(file.fileno()).st_size
        self.block, self.start, self.at = b"", 0, 0
        self.strings = 0

    @property
    def place(self) -> int:
        """How many bytes have been read or skipped."""
        return self.start + self.at

    def left(self) -> int:
        """How many bytes are yet to come; negative where something claimed more than there is."""
        return self.size - self.place

    def ready(self, count: int) -> None:
        """Have these bytes in the block. Raises ConfigError where the file ends before them."""
        if self.left() < count:
            raise _damaged(self.path, f"it ends at byte {self.size}, within its header")
        if self.at + count <= len(self.block):
            return
        self.start, self.at = self.place, 0
        self.file.seek(self.start)
        self.block = self.file.read(max(count, _BLOCK))
        if len(self.block) < count:
            raise _damaged(self.path, f"it ends at byte {self.start}, within its header")

    def number(self, kind: str) -> Any:
        count = struct.calcsize(kind)
        self.ready(count)
        (value,) = struct.unpack_from(kind, self.block, self.at)
        self.at += count
        return value

    def skip(self, count: int) -> None:
        if count > self.left():
            raise _damaged(
                self.path, f"at byte {self.place} it claims {count} bytes, and has {self.left()}"
            )
        self.at += count

    def text(self, count: int) -> str:
        self.ready(count)
        content = self.block[self.at : self.at + count]
        self.at += count
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise _damaged(self.path, f"{shown(content)} is not UTF-8") from None

    def name(self, of: str) -> str:
        count = self.number("<Q")
        if count > LONGEST_NAME:
            raise _damaged(self.path, f"a {of}'s name has {count} bytes, more than {LONGEST_NAME}")
        return self.text(count)

    def string(self) -> str | Skipped:
        count = self.number("<Q")
        if count <= KEPT_BYTES:
            return self.text(count)
        self.skip(count)
        return Skipped(count)

    def array(self, name: str) -> Any:
        kind, count = self.number("<I"), self.number("<Q")
        if kind == _STRING:
            self._skip_strings(name, count)
            return Skipped(count)
        if kind == _ARRAY:
            raise _damaged(self.path, f"{shown(name)} is an array of arrays, which nobody reads")
        if kind not in _NUMBERS:
            raise _damaged(self.path, f"{shown(name)} is an array of the unknown type {kind}")
        letter = _NUMBERS[kind][1]
        length = count * struct.calcsize("<" + letter)
        if count > KEPT_NUMBERS:
            self.skip(length)
            return Skipped(count)
        self.ready(length)
        values = struct.unpack_from(f"<{count}{letter}", self.block, self.at)
        self.at += length
        return values

    def _skip_strings(self, name: str, count: int) -> None:
        self.strings += count
        # Each has its length at least.
        if self.strings > MOST_STRINGS or 8 * count > self.left():
            raise _damaged(
                self.path,
                f"{shown(name)} claims {count} strings, of {self.left()} bytes that are left and "
                f"of {MOST_STRINGS} that any file has",
            )
        length = struct.Struct("<Q").unpack_from
        block, at = self.block, self.at
        for _ in range(count):
            if at + 8 > len(block):
                self.at = at
                self.ready(8)
                block, at = self.block, self.at
            at += 8 + length(block, at)[0]
        self.at = at
        self.ready(0)


def _header(file: _Bytes, path: Path) -> GGUFHeader:
    magic = file.block[:0] if file.size < len(MAGIC) else file.number("4s")
    if magic != MAGIC:
        raise ConfigError(f"{path} is no GGUF file: it begins with {magic!r}")
    version = file.number("<I")
    if version in (2 << 24, 3 << 24):
        raise ConfigError(
            f"{path} is a GGUF file for big-endian machines: convert it with gguf-convert-endian"
        )
    if version not in (2, 3):
        raise ConfigError(f"{path} is a GGUF file of version {version}: only 2 and 3 are read")
    tensors, keys = file.number("<Q"), file.number("<Q")
    for of, count, most, least in (
        ("keys", keys, MOST_KEYS, 13),
        ("tensors", tensors, MOST_TENSORS, 24),
    ):
        if count > most or count * least > file.left():
            raise _damaged(
                path, f"it claims {count} {of}, of {file.left()} bytes, and {most} at most"
            )
    values: dict[str, Any] = {}
    for _ in range(keys):
        name = file.name("key")
        if name in values:
            raise _damaged(path, f"{shown(name)} is there twice")
        values[name] = _value(file, name)
    entries: dict[str, Tensor] = {}
    for _ in range(tensors):
        name = file.name("tensor")
        if name in entries:
            raise _damaged(path, f"the tensor {shown(name)} is there twice")
        entries[name] = _tensor(file, name)
    alignment = values.get("general.alignment", 32)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        raise _damaged(path, f"general.alignment is {shown(alignment)}, no power of two")
    data = -(-file.place // alignment) * alignment
    return GGUFHeader(path, version, values, entries, data, file.size)


def _value(file: _Bytes, name: str) -> Any:
    kind = file.number("<I")
    if kind == _STRING:
        return file.string()
    if kind == _ARRAY:
        return file.array(name)
    if kind not in _NUMBERS:
        raise _damaged(file.path, f"{shown(name)} has a value of the unknown type {kind}")
    return file.number(_NUMBERS[kind])


def _tensor(file: _Bytes, name: str) -> Tensor:
    count = file.number("<I")
    if count > MOST_DIMENSIONS:
        raise _damaged(file.path, f"the tensor {shown(name)} has {count} dimensions")
    shape = tuple(file.number("<Q") for _ in range(count))
    return Tensor(shape, file.number("<I"), file.number("<Q"))


def _damaged(path: Path, why: str) -> ConfigError:
    return ConfigError(f"{path} is not a whole GGUF file: {why}")
