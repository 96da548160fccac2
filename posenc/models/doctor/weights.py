"""What the stored weights tell of the rotation, beside what the configuration says."""

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from posenc.conversion.header import Entry, read_header
from posenc.errors import ConfigError
from posenc.models.angles import LARGE, Effect, frequencies
from posenc.models.doctor.finding import Finding, Words
from posenc.models.spec import LayerSpec, ModelSpec

_FREQUENCIES = re.compile(r"inv_freq$")
# Llama's names and those of most that descend from it, with queries and keys apart.
_QUERIES_AND_KEYS = re.compile(r"\.(?:q_proj|k_proj)\.weight$")
# float16 is "e" of struct; bfloat16 is the upper half of float32.
_WIDTHS = {"F64": ("d", 8), "F32": ("f", 4), "F16": ("e", 2), "BF16": ("H", 2)}
_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
# Of one head, and more than any model has of them.
_MOST = 1 << 20
# Where weights tell nothing, this or less is what they say.
SURE = 0.99


@dataclass(frozen=True)
class Guess:
    """The layout that weights point to, how sure that is, and by how many tensors.

    A pair turns as one, so training treats its two rows alike: their norms are closer to each
    other than those of two rows of different pairs. Each tensor of queries or keys is asked
    whether its rows are closer as (i, i + d/2) or as (2i, 2i + 1). probability is that of the
    answer by a sign test over them, with neither layout favoured before; 0.5 knows nothing.
    """

    layout: Literal["half", "interleaved"]
    probability: float
    votes: int
    tensors: int


def judge_weights(path: Path, spec: ModelSpec, target: int) -> Iterator[Finding]:
    """Findings of stored frequencies and of the layout, of the safetensors files at `path`.

    Raises ConfigError where there are none, ConversionError for a file that is damaged.
    """
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files or not all(file.suffix == ".safetensors" for file in files):
        raise ConfigError(f"{path} has no safetensors file: --weights reads no other")
    entries = [(file, entry) for file in files for entry in read_header(file).entries]
    layer = next((x for x in spec.layers if x is not None and x.rotary), None)
    if layer is None or layer.rotary is None:
        return
    for file, entry in entries:
        if _FREQUENCIES.search(entry.name):
            yield from _stored(file, entry, spec, target)
    guess = guess_layout(entries, layer)
    if guess is None:
        return
    told = layer.rotary.settings.get("layout", "half")
    numbers = {
        "layout": guess.layout,
        "probability": guess.probability,
        "votes": guess.votes,
        "tensors": guess.tensors,
        "told": told,
    }
    if guess.probability >= SURE and guess.layout != told:
        yield Finding(
            "layout-of-weights",
            "error",
            Words(
                "Rows of queries and keys are those of layout {layout!r} with a probability of "
                "{probability:.3g} ({votes} of {tensors} tensors); this model type's code turns "
                "{told!r}. `posenc convert` writes the other layout.",
                "查询与键的行属于布局 {layout!r} 的概率为 {probability:.3g}（{tensors} 个张量中有 {votes} 个），"
                "而该模型类型的代码按 {told!r} 旋转。`posenc convert` 可写出另一种布局。",
            ),
            numbers=numbers,
        )
    else:
        yield Finding(
            "layout-of-weights",
            "note",
            Words(
                "Rows of queries and keys are those of layout {layout!r} with a probability of "
                "{probability:.3g} ({votes} of {tensors} tensors); this model type's code turns "
                "{told!r}.",
                "查询与键的行属于布局 {layout!r} 的概率为 {probability:.3g}（{tensors} 个张量中有 {votes} 个）；"
                "该模型类型的代码按 {told!r} 旋转。",
            ),
            numbers=numbers,
        )


def _stored(file: Path, entry: Entry, spec: ModelSpec, target: int) -> Iterator[Finding]:
    """Frequencies in the file that no layer of the configuration has."""
    words = Words(
        "{name} in {file} is none of the configuration's: it was made by other settings, "
        "or rounded when the model was cast. Leave it out of the file.",
        "{file} 中的 {name} 与配置不符：它由其他设置生成，或在转换模型精度时被舍入。请从文件中删去它。",
    )
    numbers = {"name": entry.name, "file": file.name}
    yield from _judged("stored-frequencies", _numbers(file, entry), spec, target, words, numbers)


def judge_buffers(model: Any, spec: ModelSpec, target: int) -> Iterator[Finding]:
    """Frequencies that a model of transformers holds and that no layer of its configuration has."""
    for name, buffer in model.named_buffers():
        # What it was made with is kept beside it, and turns nothing.
        if not _FREQUENCIES.search(name) or "original_" in name or buffer.ndim != 1:
            continue
        dtype = str(buffer.dtype).removeprefix("torch.")
        words = Words(
            "{name} ({dtype}) is none of the configuration's: it was made by other settings, or "
            "rounded when the model was cast. Load it in the dtype that it is to have, or "
            "posenc.attach(model), whose angles are exact.",
            "{name}（{dtype}）与配置不符：它由其他设置生成，或在转换模型精度时被舍入。请直接以所需精度加载模型，"
            "或使用 posenc.attach(model)，其角度是精确的。",
        )
        numbers = {"name": name, "dtype": dtype}
        held = buffer.double().tolist()
        yield from _judged("live-frequencies", held, spec, target, words, numbers)


def _judged(
    rule: str,
    held: list[float],
    spec: ModelSpec,
    target: int,
    words: Words,
    numbers: dict[str, Any],
) -> Iterator[Finding]:
    layers = [x for x in spec.layers if x is not None and x.rotary]
    errors = [_off(held, layer, target) for layer in layers]
    largest, pairs = min(errors, default=(0.0, 0))
    if largest > LARGE:
        effect = Effect(target - 1, largest, pairs, len(held), 1.0, 1)
        yield Finding(
            rule,
            "error",
            words,
            keys=(numbers["name"],),
            effect=effect if math.isfinite(largest) else None,
            numbers=numbers,
            link="https://github.com/huggingface/transformers/issues/48892",
        )


def _off(stored: list[float], layer: LayerSpec, target: int) -> tuple[float, int]:
    """The largest error in radians, infinite where the two cannot be compared, and how many."""
    assert layer.rotary is not None
    waves = frequencies(layer.rotary, 1)
    start, turned = (layer.rotary.settings.get(x, 0) for x in ("start", "rotary_dim"))
    waves = waves[start : start + (turned or layer.head_dim)]
    half = layer.rotary.settings.get("layout", "half") == "half"
    waves = waves[: len(waves) // 2] if half else waves[::2]
    if len(waves) != len(stored) or not all(map(math.isfinite, stored)):
        return math.inf, len(stored)
    errors = [abs(x - y) * (target - 1) for x, y in zip(waves, stored, strict=True)]
    return max(errors), sum(x > LARGE for x in errors)


def _numbers(file: Path, entry: Entry) -> list[float]:
    if entry.dtype not in _WIDTHS or entry.elements > _MOST:
        raise ConfigError(f"{file}: {entry} holds no frequencies that could be read")
    code, width = _WIDTHS[entry.dtype]
    with file.open("rb") as stream:
        stream.seek(entry.begin)
        content = stream.read(entry.end - entry.begin)
    values = struct.unpack(f"<{len(content) // width}{code}", content)
    if entry.dtype == "BF16":
        return [struct.unpack("<f", struct.pack("<I", value << 16))[0] for value in values]
    return [float(value) for value in values]


def guess_layout(entries: list[tuple[Path, Entry]], layer: LayerSpec) -> Guess | None:
    """What the norms of rows point to; None where no tensor can be asked."""
    # MLA's keys are not rows of one matrix, and a head that turns in part has rows that rest.
    if layer.rotary is None or {"start", "rotary_dim"} & set(layer.rotary.settings):
        return None
    votes: list[bool] = []
    for file, entry in entries:
        if _QUERIES_AND_KEYS.search(entry.name) and entry.dtype in _DTYPES:
            rows = entry.shape[0] if len(entry.shape) == 2 else 0
            if rows and rows % layer.head_dim == 0:
                votes.append(_votes_half(file, entry, layer.head_dim))
    if not votes:
        return None
    most = max(sum(votes), len(votes) - sum(votes))
    # Two sides: how often coins would agree at least as much.
    chance = sum(math.comb(len(votes), k) for k in range(most, len(votes) + 1))
    chance = min(1.0, 2 * chance / 2 ** len(votes))
    layout = "half" if sum(votes) * 2 > len(votes) else "interleaved"
    return Guess(layout, 1 - chance / 2, most, len(votes))


def _votes_half(file: Path, entry: Entry, head_dim: int) -> bool:
    import torch

    rows, columns = entry.shape
    weight = torch.from_file(str(file), shared=False, size=file.stat().st_size, dtype=torch.uint8)[
        entry.begin : entry.end
    ]
    # A copy, for the file's tensors need not lie at multiples of their width.
    weight = weight.clone().view(getattr(torch, _DTYPES[entry.dtype])).view(rows, columns)
    norms = weight.float().norm(dim=1).clamp_min(1e-30).log().view(-1, head_dim)
    pairs = head_dim // 2
    half = (norms[:, :pairs] - norms[:, pairs:]).abs().mean()
    return bool(half < (norms[:, 0::2] - norms[:, 1::2]).abs().mean())
