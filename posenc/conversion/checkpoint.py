"""A checkpoint on the disk, from one layout of rotary pairs to the other, without loading it."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.atomic_files import whole_file, whole_folder
from posenc.conversion.config import CONFIG, Geometry, geometry
from posenc.conversion.header import Header, read_header
from posenc.conversion.names import Names, family
from posenc.conversion.pairs import Change
from posenc.conversion.plan import plan
from posenc.conversion.stream import convert_file
from posenc.errors import ConversionError, SettingError, shown

if TYPE_CHECKING:
    from posenc.terms import Layout

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
# What else may hold weights, in the old layout: not copied.
WEIGHTS = frozenset(
    (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx")
)
Progress = Callable[[int, int], None]


def convert_checkpoint(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    source: "Layout",
    target: "Layout",
    *,
    head_dim: int | None = None,
    rotary_dim: int | None = None,
    start: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    names: str | Names = "llama",
    progress: Progress | None = None,
) -> tuple[str, ...]:
    """Copy a checkpoint with its queries and keys in layout `target`; the names of what changed.

        convert_checkpoint("model", "model-interleaved", "half", "interleaved")

    Tensors are copied in the order of the file, in chunks of 1 MiB; those of queries and keys are
    reordered as `convert_layout` does. Their dtype does not matter, and the header, with its
    metadata, stays the same byte for byte.

    path: a safetensors file, or a folder that holds model.safetensors or its shards and their
    index. Of a folder its other files (config.json, the tokenizer's) are copied too, but no
    folders, and no weights in files of other names.
    out: the new file or folder. It must not exist, and appears whole or not at all.
    names: a family ("llama", "meta", "deepseek", "gpt_neox", "phi3", "chatglm"), or
        Names of your own.
    head_dim, rotary_dim, heads, kv_heads: as the config.json beside the tensors says, where there
    is one; else head_dim is needed, and heads and kv_heads are where q, k and v are fused. Every
    tensor found is held to them.
    start: as in `convert_layout`; in the family "deepseek" the last rotary_dim dimensions rotate
    unless it says otherwise.
    progress: called with the bytes written and the bytes in all.

    Raises ConversionError for a damaged file, a tensor that has no such layout, names that find
    nothing, settings that contradict config.json and places that cannot be written, before
    anything is; SettingError for settings.
    """
    path, out = Path(path), Path(out)
    names, family_name = family(names), names
    if source == target:
        raise SettingError(f"convert_checkpoint: {source!r} to {target!r} changes nothing")
    index = _index(path)
    headers = [read_header(file) for file in _files(path, index)]
    if index is not None:
        _check_index(path, index, headers)
    known = geometry(path, Geometry(head_dim, rotary_dim, heads, kv_heads))
    if known.latent and isinstance(family_name, str) and names.one_head is None:
        raise SettingError(
            f"names={family_name!r}: {CONFIG} is of latent attention (MLA), whose names are "
            "'deepseek'; or give Names"
        )
    start = _start(start, known.rotary_dim, names)
    change = Change(source, target, known.head_dim or 0, known.rotary_dim, start)
    reordered = plan(headers, names, change, known)
    total = sum(header.size for header in headers)
    _check_place(path, out, total)

    done = 0

    def wrote(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    try:
        with contextlib.ExitStack() as stack:
            targets = [out]
            if path.is_dir():
                folder = stack.enter_context(whole_folder(out))
                targets = [folder / header.path.name for header in headers]
                for other in path.iterdir():
                    if other.is_file() and other.suffix not in WEIGHTS:
                        shutil.copyfile(other, folder / other.name)
            for header, place in zip(headers, targets, strict=True):
                with whole_file(place, new=True) as file:
                    convert_file(header, reordered, file, wrote)
    except OSError as error:
        raise ConversionError(
            f"{out} was not written, and nothing of it is left: {error.strerror or error}"
        ) from error
    return tuple(reordered)


def _start(start: int | None, rotary_dim: int | None, names: Names) -> int:
    if names.one_head is None:
        return start or 0
    if rotary_dim is None:
        raise SettingError(
            "rotary_dim= is needed (qk_rope_head_dim in the model's config): what rotates is "
            "behind other dimensions of the head"
        )
    return -rotary_dim if start is None else start


def _index(path: Path) -> dict[str, str] | None:
    """Which shard holds each tensor, or None for a checkpoint in one file."""
    place = path / INDEX
    if not place.is_file():
        return None
    if (path / SINGLE).is_file():
        raise ConversionError(
            f"{path} holds both {SINGLE} and {INDEX}: give the one file, or move it elsewhere"
        )
    try:
        shards = json.loads(place.read_bytes())["weight_map"]
        if not shards or not all(isinstance(shard, str) for shard in shards.values()):
            raise ValueError("no weight_map from names to files")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConversionError(f"{place} is not an index of shards: {error}") from None
    # A shard's name becomes a path to write to, so it may not lead anywhere else.
    for shard in shards.values():
        if Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise ConversionError(
                f"{place} names {shown(shard)}: a .safetensors file beside it is needed"
            )
    return shards


def _files(path: Path, index: dict[str, str] | None) -> list[Path]:
    if index is not None:
        files = [path / shard for shard in sorted(set(index.values()))]
    elif path.is_dir():
        files = [path / SINGLE]
        if not files[0].is_file():
            # They are refused by name, once they are opened.
            if others := sorted(path.glob("*.gguf")):
                return others[:1]
            raise ConversionError(
                f"the folder {path} holds neither {SINGLE} nor {INDEX}: give one safetensors file"
            )
    else:
        files = [path]
    for file in files:
        if not file.is_file():
            raise ConversionError(f"{file} is not a file: give a safetensors file, or its folder")
    return files


def _check_index(path: Path, index: dict[str, str], headers: list[Header]) -> None:
    held = {(entry.name, header.path.name) for header in headers for entry in header.entries}
    astray = sorted(held ^ set(index.items()))
    if astray:
        name, shard = astray[0]
        raise ConversionError(
            f"{path / INDEX} and its shards disagree on {len(astray)} tensors, "
            f"such as {shown(name)} in {shard}"
        )


def _check_place(path: Path, out: Path, size: int) -> None:
    if out.exists() or out.is_symlink():
        same = out.exists() and os.path.samefile(path, out)
        raise ConversionError(
            f"{out} is the checkpoint itself: give another place"
            if same
            else f"{out} exists already: give a new place"
        )
    folder = out.absolute().parent
    if not folder.is_dir():
        raise ConversionError(f"{out} cannot be written: there is no folder {folder}")
    free = shutil.disk_usage(folder).free
    if free < size:
        raise ConversionError(f"{out} needs {size:,} bytes, but {folder} has {free:,} free")
