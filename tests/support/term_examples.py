"""One maker per way of using a term, those without a member included, and ways tokens come."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from posenc import Positions
from posenc import terms as t
from posenc.mask_rules import Chunk, Prefix, Sink, Window
from tests.support.oracles import Scene, scene

Draw = Callable[..., Tensor]


@dataclass(frozen=True)
class Sizes:
    """Odd on purpose: no two dimensions are equal, and query heads share key heads."""

    batch: int = 2
    heads: int = 6
    key_heads: int = 3
    q_len: int = 3
    k_len: int = 7
    dim: int = 10
    value_dim: int = 4
    # Positions stay below this.
    reach: int = 7


def inputs(s: Sizes, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v of these sizes."""
    return (
        draw(s.batch, s.heads, s.q_len, s.dim),
        draw(s.batch, s.key_heads, s.k_len, s.dim),
        draw(s.batch, s.key_heads, s.k_len, s.value_dim),
    )


def rotate(s: Sizes, draw: Draw, *, batch: int = 1, heads: int = 1, pairs: int = 5, **settings):
    angles = draw(batch, heads, s.q_len, pairs), draw(batch, heads, s.k_len, pairs)
    return t.Rotate(*angles, **({"layout": "half"} | settings))


def rotate_log(s: Sizes, draw: Draw, **settings) -> t.Rotate:
    pairs = settings.get("pairs", 5)
    grown = {"q_log_scale": draw(1, 1, s.q_len, pairs), "k_log_scale": draw(1, 1, s.k_len, pairs)}
    return rotate(s, draw, **settings, **grown)


def transform(
    s: Sizes, draw: Draw, *, batch: int = 1, heads: int = 1, blocks: int = 3, size: int = 3
) -> t.Transform:
    shape = blocks, size, size
    return t.Transform(draw(batch, heads, s.q_len, *shape), draw(batch, heads, s.k_len, *shape))


def basis(s: Sizes, draw: Draw) -> t.Transform:
    one = draw(1, s.heads, 1, 1, s.dim, s.dim)
    return t.Transform(one, one)


def rotate_values(
    s: Sizes,
    draw: Draw,
    *,
    batch: int = 1,
    heads: int = 1,
    pairs: int = 1,
    layout: t.Layout = "interleaved",
    start: int = 0,
) -> t.RotateValues:
    key_heads = 1 if heads == 1 else s.key_heads
    q_angle, k_angle = draw(batch, heads, s.q_len, pairs), draw(batch, key_heads, s.k_len, pairs)
    return t.RotateValues(q_angle, k_angle, layout, start)


def zones(s: Sizes, draw: Draw) -> t.Zones:
    near, far = rotate(s, draw, heads=s.heads), rotate(s, draw, pairs=2, layout="interleaved")
    return t.Zones(near, far, width=3)


def chunk_zones(s: Sizes, draw: Draw, width: int = 2) -> t.ChunkZones:
    same = rotate(s, draw, heads=s.heads)
    others = (rotate(s, draw, heads=s.heads, batch=s.batch) for _ in range(2))
    return t.ChunkZones(same, *(replace(x, k_angle=None) for x in others), width=width)


def householder(s: Sizes, draw: Draw) -> t.Householder:
    # A sigmoid, for products of what stretches would leave every range.
    w = draw(s.batch, s.key_heads, s.k_len, s.dim) / s.dim**0.5
    return t.Householder(w, 2 * draw(1, s.key_heads, s.k_len).sigmoid(), s.heads)


def whole_table(s: Sizes, draw: Draw, inside: bool) -> t.DistanceTable:
    return t.DistanceTable(draw(s.heads, 2 * s.reach - 1), s.reach - 1, inside)


def bucketed_keys(s: Sizes, draw: Draw) -> t.GatherTable:
    row_of = torch.tensor([0, 0, 1, 2, 3, 4, 4])
    weight, bias = draw(s.heads, 5, s.dim), draw(s.heads, s.dim)
    return t.GatherTable(weight, 3, "k", bias=bias, row_of=row_of, saturates=True)


def whole_gather(s: Sizes, draw: Draw) -> t.GatherTable:
    return t.GatherTable(draw(1, 2 * s.reach - 1, s.dim), s.reach - 1, "q", bias=draw(1, s.dim))


def bucketed_values(s: Sizes, draw: Draw) -> t.ValueTable:
    row_of = torch.tensor([0, 1, 1, 2, 0])
    return t.ValueTable(draw(s.heads, 3, s.value_dim), 2, row_of=row_of, saturates=True)


def grid_table(s: Sizes, draw: Draw, batch: int, heads: int) -> t.GridTable:
    index = torch.arange(batch * s.k_len).view(batch, -1) * 3 % 5
    return t.GridTable(draw(heads, 9), index[:, -s.q_len :], index, 4)


def network(s: Sizes, draw: Draw, batch: int, heads: int, units: int) -> t.Network:
    hidden, output = draw(2, units), (draw(heads, units), draw(heads))
    return t.Network(draw(s.reach), draw(batch, s.q_len), *hidden, *output)


TURNS: dict[str, Callable[[Sizes, Draw], t.Term]] = {
    "rotate half": rotate,
    "rotate interleaved": lambda s, draw: rotate(s, draw, layout="interleaved"),
    "rotate a slice, gain": lambda s, draw: rotate(s, draw, pairs=3, start=2, gain=1.3),
    "rotate interleaved slice": lambda s, draw: rotate(
        s, draw, pairs=2, start=5, gain=0.7, layout="interleaved"
    ),
    "rotate per head": lambda s, draw: rotate(s, draw, heads=s.heads),
    "rotate per row": lambda s, draw: rotate(s, draw, batch=s.batch),
    "rotate per row and head": lambda s, draw: rotate(s, draw, batch=s.batch, heads=s.heads),
    "rotate growing": rotate_log,
    "rotate bounded": lambda s, draw: rotate_log(s, draw, bounded=True),
    "rotate growing slice": lambda s, draw: rotate_log(
        s, draw, pairs=2, start=1, gain=1.1, layout="interleaved"
    ),
    "zones": zones,
    "zones of chunks": chunk_zones,
    "products of reflections": householder,
    # PoPE's own angles are of query heads.
    "magnitudes": lambda s, draw: t.Polar(
        draw(s.batch, 1, s.q_len, s.dim), draw(1, s.heads, s.k_len, s.dim)
    ),
}

VALUE_TURNS: dict[str, Callable[[Sizes, Draw], t.Term]] = {
    "rotate values": lambda s, draw: rotate_values(s, draw, pairs=s.value_dim // 2, layout="half"),
    "rotate values per row and head": lambda s, draw: rotate_values(
        s, draw, batch=s.batch, heads=s.heads, start=s.value_dim - 2
    ),
}

TRANSFORMS: dict[str, Callable[[Sizes, Draw], t.Term]] = {
    "matrices": transform,
    "matrices per head": lambda s, draw: transform(s, draw, heads=s.heads, blocks=1, size=10),
    "matrices per row": lambda s, draw: transform(s, draw, batch=s.batch, blocks=5, size=2),
    "a basis": basis,
}

ADDITIONS: dict[str, Callable[[Sizes, Draw], t.Term]] = {
    "table": lambda s, draw: t.DistanceTable(draw(s.heads, 4), 2, saturates=True),
    "table of one head inside": lambda s, draw: t.DistanceTable(draw(1, 5), 4, True, True),
    "whole table": lambda s, draw: whole_table(s, draw, inside=False),
    "whole table inside": lambda s, draw: whole_table(s, draw, inside=True),
    "slope": lambda s, draw: t.Slope(draw(s.heads)),
    "slope both ways inside": lambda s, draw: t.Slope(draw(s.heads), draw(s.heads), inside=True),
    "gather q": lambda s, draw: t.GatherTable(draw(1, 3, s.dim), 1, "q", saturates=True),
    "gather q whole, bias": whole_gather,
    "gather k": lambda s, draw: t.GatherTable(draw(s.heads, 4, s.dim), 1, "k", saturates=True),
    "gather k buckets, bias": bucketed_keys,
    "gather own": lambda s, draw: t.GatherTable(
        draw(s.heads, 5, 3), 3, "q", saturates=True, own=draw(s.batch, s.heads, s.q_len, 3)
    ),
    "gather own of all rows": lambda s, draw: t.GatherTable(
        draw(1, 4, 2), 2, "q", saturates=True, own=draw(1, s.heads, s.q_len, 2)
    ),
    "values": lambda s, draw: t.ValueTable(draw(1, 5, s.value_dim), 2, saturates=True),
    "values buckets": bucketed_values,
    "offset": lambda s, draw: t.Offset(
        draw(s.batch, s.heads, s.q_len), draw(s.batch, s.heads, s.k_len)
    ),
    "offset of all rows": lambda s, draw: t.Offset(
        draw(1, s.heads, s.q_len), draw(1, s.heads, s.k_len)
    ),
    "network": lambda s, draw: network(s, draw, s.batch, s.heads, 5),
    "network of all rows and heads": lambda s, draw: network(s, draw, 1, 1, 3),
    "network of one weight": lambda s, draw: replace(
        network(s, draw, s.batch, 1, 3), output_bias=draw(s.heads)
    ),
    "network of one bias": lambda s, draw: replace(
        network(s, draw, 1, s.heads, 3), output_bias=draw(1)
    ),
    "grid": lambda s, draw: grid_table(s, draw, s.batch, s.heads),
    "grid of all rows and heads": lambda s, draw: grid_table(s, draw, 1, 1),
    "count": lambda s, draw: t.CountTable(draw(s.heads, 4, s.dim)),
    "count of all heads": lambda s, draw: t.CountTable(draw(1, 9, s.dim)),
    "scale": lambda s, draw: t.Scale(0.6),
    "scale per query": lambda s, draw: t.Scale(draw(s.batch, s.heads, s.q_len)),
    "scale per length": lambda s, draw: t.Scale(draw(1, 1, s.q_len)),
    "sink logit": lambda s, draw: t.SinkLogit(draw(s.heads)),
    "sink logit of all heads": lambda s, draw: t.SinkLogit(draw(1)),
    "dense": lambda s, draw: t.DenseBias(draw(s.batch, s.heads, s.q_len, s.k_len)),
    "dense of all": lambda s, draw: t.DenseBias(draw(1, 1, s.q_len, s.k_len)),
    "window": lambda s, draw: t.Mask(Window(2)),
    "wide window": lambda s, draw: t.Mask(Window(4)),
    "sink": lambda s, draw: t.Mask(Sink(1)),
    "prefix": lambda s, draw: t.Mask(Prefix(3)),
    "chunk": lambda s, draw: t.Mask(Chunk(4)),
}

TERMS = TRANSFORMS | TURNS | VALUE_TURNS | ADDITIONS
# Defined for causal attention only.
CAUSAL = ("zones", "zones of chunks", "products of reflections")

ARRANGEMENTS = ("plain", "padded", "packed", "packed and padded", "explicit")


def arranged(kind: str, s: Sizes, causal: bool) -> tuple[Positions, Scene]:
    """Positions of the library and the counted scene that they must equal."""
    n = s.k_len
    mask = [[j >= n // 3 for j in range(n)], [j < max(1, n - 2) for j in range(n)]][: s.batch]
    documents = [[j * 2 // n for j in range(n)], [j * 3 // n for j in range(n)]][: s.batch]
    ids = [[j * 5 % s.reach for j in range(n)], [(n - j) // 2 for j in range(n)]][: s.batch]
    given = {
        "plain": {},
        "padded": {"mask": mask},
        "packed": {"documents": documents},
        "packed and padded": {"mask": mask, "documents": documents},
        "explicit": {"ids": ids},
    }[kind]
    named = {"mask": "attention_mask"}
    tensors = {named.get(name, name): torch.tensor(rows) for name, rows in given.items()}
    positions = Positions.build(s.q_len, n, causal=causal, **tensors)
    return positions, scene(s.batch, s.q_len, n, causal=causal, **given)
