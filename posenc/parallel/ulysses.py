"""ulysses_attend: every rank has all tokens of some heads while it attends.

Letters: b batch, h query heads, g key heads, n tokens of a rank, d head dimension.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.attention import attend
from posenc.backends.backend import check_shapes
from posenc.encoding import Context
from posenc.errors import ShapeError, UnsupportedError
from posenc.lowering import Lowerable, Lowered, lower
from posenc.parallel.agreement import check_agreed
from posenc.parallel.communication import Communicator, exchange, hold
from posenc.parallel.heads import heads_of, key_heads_of
from posenc.parallel.payloads import gathered
from posenc.parallel.sharded import Sharded, check_part, fitted
from posenc.parallel.term_tensors import tensors_of
from posenc.positions import Positions
from posenc.positions.plans import Plan
from posenc.positions.shard import shard, unshard
from posenc.torch_modes import arithmetic

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh


def ulysses_attend(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b g n d"],
    v: Float[Tensor, "b g n d_v"],
    encoding: Lowerable = None,
    *,
    positions: Positions | Sharded,
    plan: str | Plan | None = None,
    group: "ProcessGroup | DeviceMesh | None" = None,
    context: Context | None = None,
    scale: float | None = None,
    backend: str = "auto",
) -> Float[Tensor, "b h n d_v"]:
    """Attention of this rank's queries to the keys of all ranks, by one exchange before and after.

    Rank r gets all tokens of the query heads r * h / s .. and of their key heads, attends to them
    as one device would, and gives each rank the output of its tokens back. Where there are fewer
    key heads than ranks, ranks whose query heads share one get the same. Every encoding can; the
    memory of a rank grows with the whole sequence, divided by the heads.

    Arguments as in `ring_attend`; the plan is "ulysses" where none is given. Raises ShapeError
    where heads cannot be shared out, and UnsupportedError for terms that are lowered already.

    Source: Jacobs et al. 2023, arXiv:2309.14509 (DeepSpeed-Ulysses).

    Example:

        whole = posenc.Positions.build(tokens, causal=True)
        out = posenc.ulysses_attend(q, k, v, posenc.T5Bias(heads=8), positions=whole)
    """
    from posenc.parallel.process_group import ProcessGroup as Group

    comm = Group(group)
    sharded = fitted(positions, comm.size, plan, "ulysses")
    check_agreed(comm, sharded, (q, k, v), encoding, context)
    return ulysses(
        comm,
        [q],
        [k],
        [v],
        encoding,
        positions=sharded,
        contexts=[context],
        scale=scale,
        backend=backend,
    )[0]


def ulysses(
    comm: Communicator,
    q: Sequence[Tensor],
    k: Sequence[Tensor],
    v: Sequence[Tensor],
    encoding: Lowerable = None,
    *,
    positions: Positions | Sharded,
    plan: str | Plan | None = None,
    contexts: Sequence[Context | None] | None = None,
    scale: float | None = None,
    backend: str = "auto",
) -> list[Tensor]:
    """The same of every rank that runs here: one of a process group, or all of a simulator."""
    if isinstance(encoding, Lowered):
        raise UnsupportedError(
            "ulysses_attend makes terms of the whole sequence: give the encoding, not what lower "
            "made"
        )
    sharded = fitted(positions, comm.size, plan, "ulysses")
    for own in zip(q, k, v, strict=True):
        check_shapes(*own)
        check_part(own[0], sharded)
    contexts = [None] * len(comm.ranks) if contexts is None else contexts
    contexts = gathered(comm, encoding, contexts, sharded, q[0].shape[0])
    of_queries, of_keys = _shared_out(q[0].shape[1], k[0].shape[1], comm.size)
    wholes = [
        [unshard(parts, sharded.plan, dim=2) for parts in _to_heads(comm, x, ranges)]
        for x, ranges in ((q, of_queries), (k, of_keys), (v, of_keys))
    ]
    terms = [
        heads_of(
            lower(encoding, sharded.whole, context=context, dtype=arithmetic(x)), *of_queries[rank]
        )
        for rank, context, x in zip(comm.ranks, contexts, wholes[0], strict=True)
    ]
    calls = list(zip(*wholes, terms, strict=True))
    hold(comm, [(*own, *tensors_of(held.terms).values()) for *own, held in calls])
    outs = [attend(x, y, z, held, scale=scale, backend=backend) for x, y, z, held in calls]
    # To every rank its tokens of these heads.
    back = [
        [shard(out, rank, comm.size, sharded.plan, dim=2) for rank in range(comm.size)]
        for out in outs
    ]
    return [torch.cat(parts, dim=1) for parts in exchange(comm, back)]


def _shared_out(
    heads: int, key_heads: int, size: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The first and the number of the query heads of every rank, and of their key heads."""
    if heads % size:
        raise ShapeError(
            f"ulysses_attend of {heads} query heads on {size} ranks: a multiple is needed; use "
            "ring_attend, or fewer ranks"
        )
    count = heads // size
    queries = [(rank * count, count) for rank in range(size)]
    return queries, [key_heads_of(*one, heads, key_heads) for one in queries]


def _to_heads(
    comm: Communicator, x: Sequence[Tensor], ranges: Sequence[tuple[int, int]]
) -> list[list[Tensor]]:
    """Of every rank here its heads, as every rank has them for its own tokens."""
    return exchange(comm, [[own.narrow(1, *one) for one in ranges] for own in x])
