"""Writes small GGUF files, whose tensors are as empty as their test allows."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import posenc as pe

Values = Mapping[str, Any]

STRING, ARRAY = 8, 9
LETTERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?"}
LETTERS |= {10: "Q", 11: "q", 12: "d"}


class Typed(NamedTuple):
    """A value of a type that Python's own does not say."""

    kind: int
    value: Any


def text(value: str | bytes) -> bytes:
    content = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(content)) + content


def value_bytes(value: Any) -> bytes:
    """The type of a value and the value: whole numbers are u32, others f32."""
    kind, value = value if isinstance(value, Typed) else (_kind(value), value)
    if kind == STRING:
        return struct.pack("<I", kind) + text(value)
    if kind != ARRAY:
        return struct.pack("<I" + LETTERS[kind], kind, value)
    inner = _kind(value[0]) if value else 4
    head = struct.pack("<IIQ", kind, inner, len(value))
    if inner == STRING:
        return head + b"".join(map(text, value))
    return head + struct.pack(f"<{len(value)}{LETTERS[inner]}", *value)


def _kind(value: Any) -> int:
    kinds = {bool: 7, int: 4, float: 6, str: STRING, bytes: STRING, tuple: ARRAY, list: ARRAY}
    return kinds[type(value)]


def gguf_bytes(
    values: Mapping[str, Any],
    tensors: Mapping[str, Sequence[float]] | None = None,
    version: int = 3,
) -> bytes:
    """A whole file: its keys, and rows of float32 by name."""
    tensors = tensors or {}
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))
    head += b"".join(text(name) + value_bytes(value) for name, value in values.items())
    data = b""
    for name, numbers in tensors.items():
        head += text(name) + struct.pack("<IQIQ", 1, len(numbers), 0, len(data))
        data += struct.pack(f"<{len(numbers)}f", *numbers)
        data += bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + data


def write_gguf(
    path: Path,
    architecture: str,
    values: Mapping[str, Any],
    tensors: Mapping[str, Sequence[float]] | None = None,
) -> Path:
    """A file of this architecture, whose name is put in front of its keys."""
    own = {f"{architecture}.{key}": value for key, value in values.items()}
    path.write_bytes(gguf_bytes({"general.architecture": architecture, **own}, tensors))
    return path


class File(NamedTuple):
    """What llama.cpp's converter writes for a published configuration."""

    architecture: str
    values: Values
    tensors: Mapping[str, Any] = {}


def sizes(layers: int, width: int, heads: int, length: int, **more: Any) -> dict[str, Any]:
    values = {
        "block_count": layers,
        "embedding_length": width,
        "attention.head_count": heads,
        "context_length": length,
    }
    return values | {key.replace("__", "."): value for key, value in more.items()}


def yarn(factor: float, original: int) -> dict[str, Any]:
    return {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": factor,
        "rope.scaling.original_context_length": original,
    }


def llama3_divisors(factor: float, low: float, high: float, base: float, pairs: int) -> list[float]:
    """By how much each pair is slower, as the scaling's tensors have it."""
    plain = pe.Rotary(2 * pairs, base)
    scaled = pe.Rotary(2 * pairs, base, scaling=pe.Llama3(factor, low, high, 8192))
    return (plain.frequencies() / scaled.frequencies()).tolist()
