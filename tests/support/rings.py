"""What ring attention and Ulysses are compared with: the whole, and the same cut for ranks."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from posenc import Context, Encoding, Positions, attend, shard, unshard
from posenc.joint_payload import keeps
from posenc.lowering import Lowerable, lower
from posenc.parallel.communication import Communicator
from posenc.parallel.ring import ring
from posenc.parallel.sharded import Sharded
from posenc.parallel.ulysses import ulysses
from posenc.terms import CountTable, DenseBias, Householder
from posenc.testing.fixtures import Trial, context_for

Way = Callable[..., list[Tensor]]
# With the plan that each is for.
WAYS: dict[str, tuple[Way, str]] = {
    "contiguous": (ring, "contiguous"),
    "zigzag": (ring, "zigzag"),
    "striped": (ring, "striped"),
    "ulysses": (ulysses, "ulysses"),
}


def arrangements(tokens: int) -> dict[str, Positions]:
    """Ways tokens come; documents that end within ranks, padding at both ends."""
    documents = torch.stack([torch.arange(tokens) * 3 // tokens, torch.arange(tokens) // 5])
    mask = torch.ones(2, tokens)
    mask[0, :3], mask[1, -tokens // 3 :] = 0, 0
    return {
        "plain": Positions.build(tokens, causal=True),
        "both ways": Positions.build(tokens),
        "packed": Positions.build(documents=documents, causal=True),
        "padded": Positions.build(attention_mask=mask, causal=True),
        "placed": Positions.build(ids=torch.arange(tokens) * 5 % 11, causal=True),
    }


def refused(encoding: Encoding, positions: Positions) -> bool:
    """Whether it lowers to what ring attention refuses."""
    context = context_for(encoding, positions.k_len)
    terms = lower(encoding, positions, context=context).terms
    refused_terms = any(isinstance(term, CountTable | DenseBias | Householder) for term in terms)
    return refused_terms or (keeps(encoding) and not encoding.payload_adds)


def shared_out(qkv: Sequence[Tensor], size: int) -> bool:
    """Whether Ulysses can give as many ranks their heads."""
    heads, key_heads = qkv[0].shape[1], qkv[1].shape[1]
    return not heads % size and (not key_heads % size or not size % key_heads)


def trial_of(encoding: Encoding, tokens: int) -> tuple[Encoding, list[Tensor], Context | None]:
    """The encoding off its first values, q, k and v, and what it may read of its layer."""
    trial = Trial.of(encoding, tokens)
    context = trial.context
    if context is not None and context.x is not None:
        context.x.requires_grad_()
    return trial.encoding, [x.requires_grad_() for x in trial.qkv], context


def leaves_of(encoding: Encoding, qkv: Sequence[Tensor], context: Context | None) -> list[Tensor]:
    x = [] if context is None or context.x is None else [context.x]
    return [*qkv, *encoding.parameters(), *x]


def with_gradients(out: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """The output and the gradients of a function of it."""
    return [out, *torch.autograd.grad(out.sin().sum(), leaves, materialize_grads=True)]


def whole(
    encoding: Encoding, qkv: Sequence[Tensor], context: Context | None, positions: Positions
) -> list[Tensor]:
    q, k, v = qkv
    out = attend(q, k, v, encoding, positions=positions, context=context, backend="reference")
    return with_gradients(out, leaves_of(encoding, qkv, context))


def parts_of(comm: Communicator, x: Tensor, sharded: Sharded, dim: int) -> list[Tensor]:
    return [shard(x, rank, comm.size, sharded.plan, dim=dim) for rank in comm.ranks]


def in_parts(
    way: Way,
    comm: Communicator,
    encoding: Lowerable,
    qkv: Sequence[Tensor],
    context: Context | None,
    sharded: Sharded,
) -> list[Tensor]:
    """The outputs of the ranks that run here."""
    contexts: list[Context | None] = [context] * len(comm.ranks)
    if context is not None and context.x is not None:
        of_ranks = parts_of(comm, context.x, sharded, 1)
        contexts = [replace(context, x=x) for x in of_ranks]
    tensors = [parts_of(comm, x, sharded, 2) for x in qkv]
    return way(comm, *tensors, encoding, positions=sharded, contexts=contexts)


def joined(parts: Sequence[Tensor], sharded: Sharded) -> Tensor:
    return unshard(parts, sharded.plan, dim=2)
