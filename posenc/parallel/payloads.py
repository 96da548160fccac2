"""What an encoding keeps of every token (`Encoding.payload`), where others are on other ranks.

Letters: s ranks, n tokens of each, m runs of tokens of each, b batch.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from posenc.encoding import Context, Encoding
from posenc.errors import ShapeError, UnsupportedError
from posenc.joint_payload import keeps
from posenc.lowering import Lowerable, flatten
from posenc.parallel.communication import Communicator, exchange
from posenc.parallel.sharded import Sharded
from posenc.payload import with_payload
from posenc.positions.shard import unshard


def carried(
    comm: Communicator,
    encoding: Lowerable,
    contexts: Sequence[Context | None],
    sharded: Sharded,
    batch: int,
) -> list[Context | None]:
    """The contexts of each rank here, with payloads that hold what is before each token.

    Of an encoding that says that the payload of a token left out may be added to the next one's
    (`payload_adds`), the tokens of other ranks are left out so: a forget gate's sum goes on from
    rank to rank. Each sends one sum for each run of consecutive tokens.

    Raises UnsupportedError for payloads that do not add up.
    """
    told = _with_payloads(comm, encoding, contexts, sharded, batch)
    parts = [context.payload for context in told if context and context.payload is not None]
    if not parts:
        return told
    _check_adds(encoding)
    valid = [sharded.parts[rank].keys.valid for rank in comm.ranks]
    masked = [x if ok is None else _without(x, ok) for x, ok in zip(parts, valid, strict=True)]
    runs = [x.double().unflatten(-1, (-1, sharded.run)) for x in masked]
    sums = [run.sum(-1) for run in runs]
    of_ranks = exchange(comm, [[own] * comm.size for own in sums])
    order = sharded.tokens[:, :: sharded.run].reshape(-1).argsort().to(parts[0].device)
    back = order.argsort().unflatten(0, (comm.size, -1))
    made: list[Context | None] = []
    for rank, context, run, every in zip(comm.ranks, told, runs, of_ranks, strict=True):
        ordered = torch.cat(every, dim=-1).index_select(-1, order)
        before = (ordered.cumsum(-1) - ordered).index_select(-1, back[rank])
        total = (before[..., None] + run.cumsum(-1)).flatten(-2)
        assert context is not None
        first = total[..., :1]
        made.append(replace(context, payload=torch.cat((first, total.diff(dim=-1)), dim=-1)))
    return made


def gathered(
    comm: Communicator,
    encoding: Lowerable,
    contexts: Sequence[Context | None],
    sharded: Sharded,
    batch: int,
) -> list[Context | None]:
    """The contexts of each rank here, with the payloads of all tokens in their order.

    The layer's input of all tokens is there only for an encoding that keeps nothing of it.
    """
    told = _with_payloads(comm, encoding, contexts, sharded, batch)
    payloads = [context.payload for context in told if context and context.payload is not None]
    inputs = [context.x for context in told if context and context.x is not None]
    if payloads:
        whole = _of_all(comm, payloads, sharded, dim=-1)
        told = [x and replace(x, payload=own) for x, own in zip(told, whole, strict=True)]
    if inputs:
        reads = any(
            isinstance(part, Encoding) and part.tags.needs_context and not keeps(part)
            for part in flatten(encoding)
        )
        of_all = _of_all(comm, inputs, sharded, dim=1) if reads else [None] * len(told)
        told = [x and replace(x, x=own) for x, own in zip(told, of_all, strict=True)]
    return told


def _of_all(
    comm: Communicator, parts: Sequence[Tensor], sharded: Sharded, dim: int
) -> list[Tensor]:
    every = exchange(comm, [[own] * comm.size for own in parts])
    return [unshard(of_ranks, sharded.plan, dim=dim) for of_ranks in every]


def _with_payloads(
    comm: Communicator,
    encoding: Lowerable,
    contexts: Sequence[Context | None],
    sharded: Sharded,
    batch: int,
) -> list[Context | None]:
    made: list[Context | None] = []
    tokens = sharded.tokens.shape[1]
    for rank, context in zip(comm.ranks, contexts, strict=True):
        x = None if context is None else context.x
        if x is not None and x.shape[1] != tokens:
            raise ShapeError(
                f"Context(x=...) has shape {tuple(x.shape)}, but each of {comm.size} ranks has "
                f"{tokens} tokens: give the input of this rank's tokens"
            )
        if context is not None:
            context = with_payload(encoding, context, batch, tokens, None, sharded.parts[rank])
        made.append(context)
    return made


def _without(payload: Tensor, valid: Tensor) -> Tensor:
    """Zero where a token is padding, (b, ..., n)."""
    rows = valid.view(valid.shape[0], *[1] * (payload.ndim - 2), valid.shape[-1])
    return payload.masked_fill(~rows, 0.0)


def _check_adds(encoding: Lowerable) -> None:
    for part in flatten(encoding):
        if keeps(part) and not part.payload_adds:
            raise UnsupportedError(
                f"ring attention with {part!r}: it keeps something of every token that does not "
                "add up, so tokens of other ranks cannot be left out; use ulysses_attend"
            )
