"""Whether all ranks were given the same: where not, they wait for each other, or are wrong."""

from typing import TYPE_CHECKING
from zlib import crc32

import torch
from torch import Tensor

from posenc.encoding import Context
from posenc.errors import PositionsError, ShapeError
from posenc.lowering import Lowerable, Lowered, flatten
from posenc.parallel.communication import Exchange, Program
from posenc.parallel.sharded import Sharded
from posenc.positions.tokens import reading_values
from posenc.torch_modes import captured

if TYPE_CHECKING:
    from posenc.parallel.process_group import ProcessGroup


def check_agreed(
    comm: "ProcessGroup",
    sharded: Sharded,
    qkv: tuple[Tensor, Tensor, Tensor],
    encoding: Lowerable,
    context: Context | None,
) -> None:
    """Raise an error on every rank where one was given what others were not.

    ShapeError for tensors, PositionsError for positions, the plan and encodings. It is asked once
    of positions, for a GPU is waited for, and not in graphs, which read no values.
    """
    if comm.size == 1 or not reading_values() or captured(qkv):
        return
    asked: set[tuple[str, str]] = vars(sharded.whole).setdefault("_agreed", set())
    # In words, for positions are copied and pickled, and groups are not.
    here = getattr(comm.group, "group_name", ""), _plan(sharded)
    if here in asked:
        return
    told, device = _told(sharded, qkv, encoding, context), qkv[0].device
    numbers = torch.tensor([x for part in told.values() for x in part], device=device)
    numbers = torch.cat((numbers, _of_positions(sharded).to(device)))

    def program() -> Program:
        return (yield Exchange((numbers,) * comm.size))

    (every,) = comm.run("forward", [program()])
    rows = torch.stack(every).tolist()
    for other, theirs in enumerate(rows):
        own = rows[comm.rank]
        for name, width in [(x, len(part)) for x, part in told.items()] + [("positions", len(own))]:
            mine, own = own[:width], own[width:]
            there, theirs = theirs[:width], theirs[width:]
            if mine == there:
                continue
            shown = f" ({mine} and {there})" if name.endswith("shape") else ""
            raise (PositionsError if name in ("positions", "plan", "encoding") else ShapeError)(
                f"ranks {comm.rank} and {other} of {comm.size} differ in {name}{shown}: "
                "give each its part of the same tensors, and all the same positions and encoding"
            )
    asked.add(here)


def _told(
    sharded: Sharded,
    qkv: tuple[Tensor, Tensor, Tensor],
    encoding: Lowerable,
    context: Context | None,
) -> dict[str, list[int]]:
    """What ranks have in common, each in as many numbers on every rank."""
    shapes = [[*x.shape[:4], *[0] * (4 - x.ndim)] for x in qkv]
    parts = [] if isinstance(encoding, Lowered) else flatten(encoding)
    of_layer = (None, None) if context is None else (context.x, context.payload)
    return {
        **{f"{name}.shape": shape for name, shape in zip("qkv", shapes, strict=True)},
        "dtypes": [_of_text(str([x.dtype for x in qkv]))],
        "requires_grad": [int(torch.is_grad_enabled() and x.requires_grad) for x in qkv],
        "context": [int(x is None) for x in of_layer],
        "encoding": [_of_text(str([type(part).__name__ for part in parts]))],
        "plan": [_of_text(_plan(sharded))],
    }


def _plan(sharded: Sharded) -> str:
    return sharded.plan if isinstance(sharded.plan, str) else type(sharded.plan).__name__


def _of_positions(sharded: Sharded) -> Tensor:
    """A number of each thing that is told of tokens, in which each counts by its place."""
    whole, keys = sharded.whole, sharded.whole.keys
    told = (keys.position, keys.order, keys.document, keys.length, keys.valid)
    zero = torch.zeros((), dtype=torch.int64, device=whole.device)
    digests = [zero if x is None else _digest(x.detach()) for x in told]
    return torch.stack([zero + whole.k_len, zero + whole.causal, *digests])


def _digest(x: Tensor) -> Tensor:
    bits = x.double().contiguous().view(torch.int64) if x.is_floating_point() else x.long()
    flat = bits.reshape(-1)
    # Factors are odd, so that no token's difference is lost where sums wrap around.
    return (flat * (2 * torch.arange(len(flat), device=x.device) + 1)).sum() + len(flat)


def _of_text(text: str) -> int:
    return crc32(text.encode())
