"""Cases: building positions, against a copy of the tensors that they hold.

A copy is the least that anyone can do who writes these tensors; sizes are too large for a cache,
where a copy costs anything from nothing to all the rest. M-RoPE computes, and random positions are
drawn: those are held to transformers' way, and to drawing alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from posenc import Positions
from posenc.bench.case import Call, Case, Goal

FLOOR, DRAWING = "copy", "drawing"
ROW = "positions of 512 rows of 8192 tokens"
IMAGE = 16


@dataclass(frozen=True)
class PositionsSetting:
    """Rows of tokens; `kind` is what is at hand."""

    kind: str
    batch: int = 512
    tokens: int = 8192

    def inputs(self) -> "PositionsInputs":
        return PositionsInputs(self, WAYS[self.kind](self.batch, self.tokens))

    def small(self) -> Self:
        return replace(self, batch=4, tokens=2 * IMAGE * IMAGE)


@dataclass(frozen=True)
class PositionsInputs:
    setting: PositionsSetting
    build: Callable[[], Positions]


def cases() -> Iterator[Case]:
    for kind in WAYS:
        runs: dict[str, Callable[[PositionsInputs], Call]] = {FLOOR: copied, "posenc": ours}
        base, reach = FLOOR, 3.0
        if kind.startswith("attention_mask"):
            runs["transformers"] = transformers_mask
        elif kind == "mrope":
            runs["transformers"] = transformers_mrope
            base, reach = "transformers", 1.0
        elif kind in ("random", "skipping"):
            runs[DRAWING] = drawing
            base, reach = DRAWING, 4.0
        # Who only draws has no positions yet.
        goal = Goal(ROW, kind, "posenc", base, reach, () if base == DRAWING else None)
        setting = PositionsSetting(kind)
        yield Case(f"build positions, {kind}", "positions", setting, runs, FLOOR, goals=(goal,))


def ours(inputs: PositionsInputs) -> Call:
    return inputs.build


def copied(inputs: PositionsInputs) -> Call:
    """The tensors that the positions hold, each piece of memory once."""
    leaves = [x for x in pytree.tree_leaves(inputs.build()) if isinstance(x, Tensor)]
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage() for x in leaves}
    tensors = [torch.tensor([], dtype=torch.uint8).set_(storage) for storage in storages.values()]
    return lambda: [tensor.clone() for tensor in tensors]


def transformers_mask(inputs: PositionsInputs) -> Call:
    """As in transformers.generation.utils, which checks nothing and keeps no other tensor."""
    import transformers  # noqa: F401

    mask = torch.ones(inputs.setting.batch, inputs.setting.tokens, dtype=torch.int64)
    return lambda: (mask.long().cumsum(-1) - 1).masked_fill(mask == 0, 0)


def transformers_mrope(inputs: PositionsInputs) -> Call:
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel

    batch, tokens = inputs.setting.batch, inputs.setting.tokens
    mask = torch.ones(batch, tokens, dtype=torch.int64)
    types, grids = images(batch, tokens)
    # get_rope_index only counts, so the model needs no weights.
    model = object.__new__(Qwen2VLModel)
    vision = SimpleNamespace(spatial_merge_size=1)
    object.__setattr__(model, "config", SimpleNamespace(vision_config=vision))
    return lambda: model.get_rope_index(types, types, grids, attention_mask=mask)


def drawing(inputs: PositionsInputs) -> Call:
    batch, tokens = inputs.setting.batch, inputs.setting.tokens
    count = 4 * tokens if inputs.setting.kind == "random" else tokens
    return lambda: torch.empty(batch, count, dtype=torch.float64).uniform_()


def images(batch: int, tokens: int) -> tuple[Tensor, Tensor]:
    """Token types of rows that are half images, and their grids."""
    size = IMAGE * IMAGE
    types = (torch.arange(tokens) // size % 2).expand(batch, tokens).contiguous()
    # What is left of the last image would be cut.
    types[:, tokens // size * size :] = 0
    count = int(types.sum()) // size
    return types, torch.tensor([1, IMAGE, IMAGE]).expand(count, 3)


def _mask(batch: int, tokens: int, side: str) -> Tensor:
    real = torch.randint(1, tokens + 1, (batch, 1), generator=_generator())
    index = torch.arange(tokens)
    return (index >= tokens - real if side == "left" else index < real).long()


def _documents(batch: int, tokens: int) -> Tensor:
    return (torch.rand(batch, tokens, generator=_generator()) < 0.005).cumsum(-1)


def _cu(batch: int, tokens: int) -> Tensor:
    lengths = torch.randint(1, 400, (batch * tokens // 200,), generator=_generator())
    return torch.cat((lengths.new_zeros(1), lengths.cumsum(0))).int()


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _with(
    make: Callable[[int, int], dict[str, Any]],
) -> Callable[[int, int], Callable[[], Positions]]:
    """`Positions.build` of what `make` has at hand, which is there before the clock starts."""

    def way(batch: int, tokens: int) -> Callable[[], Positions]:
        at_hand = make(batch, tokens)
        return lambda: Positions.build(**at_hand, causal=True)

    return way


def _mrope(batch: int, tokens: int) -> Callable[[], Positions]:
    types, grids = images(batch, tokens)
    return lambda: Positions.mrope(types, grids, causal=True)


def _varlen(batch: int, tokens: int) -> Callable[[], Positions]:
    cu = _cu(batch, tokens)
    return lambda: Positions.varlen(cu, cu, causal=True)


WAYS: dict[str, Callable[[int, int], Callable[[], Positions]]] = {
    "attention_mask, left": _with(lambda b, t: {"attention_mask": _mask(b, t, "left")}),
    "attention_mask, right": _with(lambda b, t: {"attention_mask": _mask(b, t, "right")}),
    "documents": _with(lambda b, t: {"documents": _documents(b, t)}),
    "documents and mask": _with(
        lambda b, t: {"documents": _documents(b, t), "attention_mask": _mask(b, t, "right")}
    ),
    "cu_seqlens": _with(lambda b, t: {"cu_seqlens": _cu(b, t)}),
    "varlen": _varlen,
    "ids": _with(lambda b, t: {"ids": torch.arange(t).expand(b, t).contiguous()}),
    "mrope": _mrope,
    "random": lambda b, t: lambda: Positions.random(t, longest=4 * t, batch=b),
    "skipping": lambda b, t: lambda: Positions.skipping(t, longest=4 * t, batch=b),
}
