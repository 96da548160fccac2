"""Whether kernels and encodings give on a GPU what the equation gives in float64 on the CPU."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import posenc as pe
from posenc import terms as t
from posenc.bench.gpu.row import Found, Place, Row
from posenc.errors import UnsupportedError
from posenc.testing.fixtures import Trial, attends, causalities

# Of the largest value that is expected, or of 1 where that is smaller.
BOUNDS = {"float32": 1e-4, "float16": 5e-3, "bfloat16": 4e-2}
DIMS = (16, 40, 64, 80, 96, 128, 192, 256)
# Around the edges of tiles, which are of 64 and 128 tokens.
LENGTHS = (1, 63, 64, 65, 127, 128, 129, 300)
HEADS = 4
BACKENDS = ("auto", "triton", "blocked", "flex")


@dataclass(frozen=True)
class Feature:
    """What a kernel reads beside q, k and v.

    parts     of a number of tokens, with what learns among them
    where     of a number of tokens, as `posenc.attend` is called
    kv_heads  of keys and values
    queries   None: as many as keys
    vectors   which of queries, keys and values read vectors by distance: letters of "qkv"
    """

    parts: Callable[[int], Sequence[Any]]
    where: Callable[[int], dict[str, Any]] = lambda length: {"causal": True}
    kv_heads: int = HEADS
    queries: int | None = None
    vectors: str = ""


def _learned(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def _slopes(length: int) -> list[Any]:
    return [t.Slope(torch.rand(HEADS, dtype=torch.float64) / 8)]


def _table(length: int, size: int = 33) -> list[Any]:
    return [t.DistanceTable(_learned(HEADS, size), size // 2, saturates=True)]


def _offsets(length: int) -> list[Any]:
    return [t.Offset(_learned(2, HEADS, length), _learned(2, HEADS, length))]


def _vectors(sides: str, dim: int) -> list[Any]:
    """Vectors of distances from 20 behind to 9 ahead, one row for all heads, or one for each."""
    terms: list[Any] = []
    for side in sides:
        weight = _learned(HEADS if side == "k" else 1, 30, dim)
        if side == "v":
            terms.append(t.ValueTable(weight, 20, saturates=True))
        else:
            terms.append(t.GatherTable(weight, 20, "q" if side == "q" else "k", saturates=True))
    return terms


def _packed(length: int) -> dict[str, Any]:
    documents = torch.arange(length)[None] * 3 // max(length, 1)
    return {"positions": pe.Positions.build(documents=documents, causal=True)}


def _padded(length: int) -> dict[str, Any]:
    mask = torch.ones(2, length, dtype=torch.bool)
    mask[0, : length // 3] = False
    return {"positions": pe.Positions.build(attention_mask=mask, causal=True)}


def _nothing(length: int) -> list[Any]:
    return []


def _everybody(length: int) -> dict[str, Any]:
    return {"causal": False}


def _padded_both_ways(length: int) -> dict[str, Any]:
    mask = torch.ones(2, length, dtype=torch.bool)
    mask[0, length - length // 3 :] = False
    return {"positions": pe.Positions.build(attention_mask=mask, causal=False)}


def _window(length: int) -> list[Any]:
    return [*_slopes(length), t.Mask(t.Window(50)), t.Mask(t.Sink(3))]


def _last(length: int) -> dict[str, Any]:
    return {"positions": pe.Positions.build(1, length, causal=True)}


FEATURES: dict[str, Feature] = {
    "no bias": Feature(_nothing),
    "slopes": Feature(_slopes),
    "slopes, both ways": Feature(_slopes, lambda length: {"causal": False}),
    "a table that learns": Feature(_table),
    "a table of every distance": Feature(partial(_table, size=640)),
    "a table, both ways": Feature(_table, lambda length: {"causal": False}),
    "a sink": Feature(lambda length: [t.SinkLogit(_learned(HEADS)), *_slopes(length)]),
    "offsets that learn": Feature(_offsets),
    "a window": Feature(_window),
    "a prefix": Feature(lambda length: [*_slopes(length), t.Mask(t.Prefix(40))]),
    "documents": Feature(_table, _packed),
    "padding": Feature(_slopes, _padded),
    "grouped heads": Feature(_table, kv_heads=1),
    "vectors of queries": Feature(_nothing, vectors="q"),
    "vectors of keys": Feature(_nothing, kv_heads=2, vectors="k"),
    "vectors of values": Feature(_nothing, vectors="v"),
    "vectors of all, both ways": Feature(_nothing, _everybody, vectors="qkv"),
    "vectors of all, documents": Feature(_nothing, _packed, vectors="qkv"),
    "vectors of all, padding": Feature(_nothing, _padded_both_ways, vectors="qkv"),
    "one query": Feature(_slopes, _last, kv_heads=2, queries=1),
    "one query, offsets": Feature(
        lambda length: [t.Offset(_learned(2, HEADS, 1), _learned(2, HEADS, length))],
        _last,
        kv_heads=2,
        queries=1,
    ),
    "one query, a table": Feature(_table, _last, kv_heads=2, queries=1),
}


def rows(place: Place) -> Iterator[Row]:
    """Every encoding; each feature at each edge, and each width and dtype with some of them."""
    if place.tiny:
        yield from _kernel_rows(["a table that learns"], ["float32"], [16], [17])
        yield from _encoding_rows(["window"])
        return
    yield from _encoding_rows(pe.encodings())
    yield from _kernel_rows([*FEATURES], ["bfloat16"], [64, 128], LENGTHS)
    yield from _kernel_rows([*FEATURES], ["float16", "float32"], [64], (129,))
    some = ["no bias", "a table that learns", "documents", "one query"]
    yield from _kernel_rows(some, ["bfloat16", "float32"], DIMS, (130,))
    # In 32 bits wider heads have no room.
    for dtype, dims in (("bfloat16", DIMS), ("float32", [dim for dim in DIMS if dim <= 128])):
        yield from _kernel_rows(["vectors of all, both ways"], [dtype], dims, (130,))


def _kernel_rows(
    features: Sequence[str], dtypes: Sequence[str], dims: Sequence[int], lengths: Sequence[int]
) -> Iterator[Row]:
    for feature in features:
        for dtype in dtypes:
            for dim in dims:
                name = f"{feature}, heads of {dim}, {dtype}, {', '.join(map(str, lengths))} tokens"
                yield Row(f"kernel: {name}", kernel, (feature, dtype, dim, tuple(lengths)))


def _encoding_rows(names: Sequence[str] | dict[str, Any]) -> Iterator[Row]:
    for name in names:
        yield Row(f"encoding: {name}", encoding, (name,))


def kernel(place: Place, feature: str, dtype: str, dim: int, lengths: tuple[int, ...]) -> Found:
    """The largest error of output and gradients of our Triton kernels, over lengths.

    What kernels leave unwritten is NaN here, and a second run must give the same bits.
    """
    torch.use_deterministic_algorithms(True, warn_only=True)
    asked, worst, same = FEATURES[feature], {}, True
    for length in lengths:
        expected = _run(asked, dim, length, "cpu", torch.float64, "reference")
        first, second = (
            _run(asked, dim, length, place.device, getattr(torch, dtype), "triton")
            for _ in range(2)
        )
        same &= all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
        _note(worst, zip(NAMES, first, expected, strict=False))
    return _judged(worst, BOUNDS[dtype], same)


NAMES = ("output", "gradient of q", "gradient of k", "gradient of v", *(
    f"gradient of what learns, {number}" for number in range(1, 5)
))  # fmt: skip


def _run(
    feature: Feature, dim: int, length: int, device: str, dtype: torch.dtype, backend: str
) -> list[Tensor]:
    """Output and gradients, of inputs that are the same whatever the dtype and the device."""
    torch.manual_seed(dim * 1000 + length)
    own = feature.queries or length
    sizes = (2, HEADS, own, dim), *2 * [(2, feature.kv_heads, length, dim)]
    parts = [*feature.parts(length), *_vectors(feature.vectors, dim)]
    where = feature.where(length)
    # Rounded once, so that both backends read the same numbers.
    drawn = [torch.randn(size, dtype=torch.float64).bfloat16() for size in sizes]
    q, k, v = (x.to(device, dtype).requires_grad_() for x in drawn)
    learned: list[Tensor] = []

    def moved(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        exact = torch.float64 if dtype == torch.float64 else torch.float32
        there = x.detach().to(device, exact) if x.is_floating_point() else x.to(device)
        if x.requires_grad:
            learned.append(there.requires_grad_())
        return there

    parts, where = (pytree.tree_map(moved, x) for x in (parts, where))
    if feature.queries:
        with torch.no_grad():
            return [pe.attend(q, k, v, parts, backend=backend, **where)]
    out = pe.attend(q, k, v, parts, backend=backend, **where)
    weights = torch.randn(out.shape, dtype=torch.float64).bfloat16().to(out)
    return [out, *torch.autograd.grad(out, (q, k, v, *learned), weights)]


def encoding(place: Place, name: str) -> Found:
    """The largest error of each example of an encoding by each backend that takes it, in float32;
    FlexAttention takes the first.

    Of what it embeds, of scores, of attention, and of its gradients, parameters' too.
    """
    worst: dict[str, float] = {}
    for number, example in enumerate(pe.encodings()[name].examples()):
        trial = Trial.of(example)
        there = trial.to(torch.float32).to(place.device)
        for causal in causalities(example):
            expected = trial.results(pe.Positions.build(trial.q.shape[-2], causal=causal))
            at = pe.Positions.build(trial.q.shape[-2], causal=causal, device=place.device)
            actual = there.results(at)
            _note(worst, ((what, actual[what], expected[what]) for what in expected))
        if attends(example):
            # A compilation of a minute for each example would tell little more than for one.
            backends = BACKENDS if number == 0 else BACKENDS[:-1]
            _note(worst, _by_backend(trial, there, place, backends))
    return _judged(worst, BOUNDS["float32"])


def _by_backend(
    trial: Trial, there: Trial, place: Place, backends: Sequence[str]
) -> Iterator[tuple[str, Tensor, Tensor]]:
    length = trial.q.shape[-2]
    expected = _gradients(trial, "reference", pe.Positions.build(length, causal=True))
    at = pe.Positions.build(length, causal=True, device=place.device)
    for backend in backends:
        try:
            actual = _gradients(there, backend, at)
        except UnsupportedError:
            continue
        for what, one in actual.items():
            yield f"{backend}, {what}", one, expected[what]


def _gradients(trial: Trial, backend: str, positions: pe.Positions) -> dict[str, Tensor]:
    """The output, and by name the gradients of q, k, v and the encoding's parameters."""
    q, k, v = (x.detach().requires_grad_() for x in trial.qkv)
    leaf = Trial(trial.encoding, trial.x, q, k, v, trial.context)
    leaves = {"q": q, "k": k, "v": v, **dict(trial.encoding.named_parameters())}
    leaves = {name: one for name, one in leaves.items() if one.requires_grad}
    out = leaf.attend(positions=positions, backend=backend)
    weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view(out.shape).to(out)
    # An example may have parameters that attention does not read.
    grads = torch.autograd.grad(out, [*leaves.values()], weights, materialize_grads=True)
    named = zip(leaves, grads, strict=True)
    return {"output": out} | {f"gradient of {name}": grad for name, grad in named}


def _note(worst: dict[str, float], compared: Any) -> None:
    """Keep the largest error by what was compared; a number that is none is infinitely wrong."""
    for what, actual, expected in compared:
        actual, expected = actual.detach().cpu().double(), expected.detach().cpu().double()
        if actual.shape != expected.shape or not torch.equal(actual.isnan(), expected.isnan()):
            found = math.inf
        else:
            gap = (actual - expected).nan_to_num(0.0, 0.0, 0.0).abs()
            largest = expected.nan_to_num(0.0, 0.0, 0.0).abs()
            found = float(gap.max() / max(1.0, float(largest.max()))) if gap.numel() else 0.0
        worst[what] = max(worst.get(what, 0.0), found)


def _judged(worst: dict[str, float], bound: float, same: bool = True) -> Found:
    what = max(worst, key=lambda name: worst[name])
    return {
        "right": same and worst[what] <= bound,
        # JSON has no infinity.
        "error": worst[what] if math.isfinite(worst[what]) else None,
        "of": what,
        "bound": bound,
        "same_bits": same,
    }
