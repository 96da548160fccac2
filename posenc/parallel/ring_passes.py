"""The passes of ring attention over the ranks, forward and backward.

Letters: b batch, h query heads, g key heads, n tokens of a rank, d head dimension.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.attention import attend
from posenc.equation import sink_of
from posenc.errors import UnsupportedError
from posenc.lowering import Lowered
from posenc.merging import merge
from posenc.normal_form.normalise import normalise
from posenc.parallel.communication import Communicator, Hold, Program, Receive, Send
from posenc.parallel.sharded import Sharded
from posenc.parallel.term_tensors import Path, with_tensors
from posenc.terms import SinkLogit, Term
from posenc.torch_modes import fitting


@dataclass(frozen=True, eq=False)
class Job:
    """What is computed, but for tensors that may learn.

    names, keys  where tensors are in the terms, and where those are that belong to keys
    meetings     of every rank whether it sees anything of each other
    """

    comm: Communicator
    sharded: Sharded
    terms: Sequence[tuple[Term, ...]]
    names: list[Path]
    keys: list[Path]
    meetings: list[list[bool]]
    scale: float | None
    backend: str
    dtype: torch.dtype

    def met(
        self,
        number: int,
        source: int,
        q: Tensor,
        block: Sequence[Tensor],
        own: Mapping[Path, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """A rank's queries before the keys of `source`."""
        rank = self.comm.ranks[number]
        mine, theirs = self.sharded.parts[rank], self.sharded.parts[source]
        k, v, *of_keys = block
        tensors = {**own, **dict(zip(self.keys, of_keys, strict=True))}
        terms = with_tensors(self.terms[number], tensors)
        # Each rank starts with it, and no part has it.
        terms = tuple(term for term in terms if not isinstance(term, SinkLogit))
        form = normalise(terms, mine.with_keys(theirs.keys), self.dtype)
        lowered = fitting(Lowered, terms=terms, form=form)
        return attend(q, k, v, lowered, scale=self.scale, backend=self.backend, return_lse=True)

    def nothing_met(
        self, number: int, q: Tensor, own: Mapping[Path, Tensor]
    ) -> Float[Tensor, "b h n"]:
        """The log of the sum of a rank's queries before any key: that of a sink, else -inf."""
        sink = sink_of(with_tensors(self.terms[number], own))
        if sink is None:
            return q.new_full(q.shape[:3], -torch.inf, dtype=self.dtype)
        return sink.to(self.dtype)[:, None].expand(q.shape[:3])

    def before(self, number: int, step: int) -> tuple[int, bool]:
        """Whose keys a rank has at a step, and whether it sees any of them."""
        rank = self.comm.ranks[number]
        source = (rank - step) % self.comm.size
        return source, self.meetings[rank][source]


def _forward(job: Job, number: int, q: Tensor, block: tuple[Tensor, ...], own: Any) -> Program:
    """Output, in the dtype of the arithmetic, and log of the sum of a rank."""
    size = job.comm.size
    out = q.new_zeros(*q.shape[:3], block[1].shape[-1], dtype=job.dtype)
    lse = job.nothing_met(number, q, own)
    yield Hold((*block, *own.values()))
    for step in range(size):
        source, sees = job.before(number, step)
        if step + 1 < size:
            # On its way while this rank computes.
            yield Send(block)
        if sees:
            part, part_lse = job.met(number, source, q, block, own)
            out, lse = merge((out, part), (lse, part_lse))
        if step + 1 < size:
            block = yield Receive()
    return out, lse


def _backward(
    job: Job,
    number: int,
    q: Tensor,
    block: tuple[Tensor, ...],
    own: dict[Path, Tensor],
    found: tuple[Tensor, Tensor, Tensor],
    needs: Mapping[Any, bool],
) -> Program:
    """The gradients of a rank's queries, keys, values and terms, by name.

    found  output, log of the sum, and the gradient of the output
    """
    size, names = job.comm.size, ("k", "v", *job.keys)
    out, lse, grad = found
    grad = grad.to(job.dtype)
    learned = [name for name in ("q", *own) if needs[name] and name not in job.keys]
    sums = {"q": torch.zeros_like(q, dtype=job.dtype)}
    sums |= {name: torch.zeros_like(x) for name, x in own.items()}
    moving = [place for place, name in enumerate(names) if needs[name]]
    # Sums over all ranks' queries, which go on with the keys that they are of.
    grads = tuple(
        torch.zeros_like(block[n], dtype=torch.promote_types(block[n].dtype, job.dtype))
        for n in moving
    )
    for name, x in _of_sink(job, number, q, own, found, learned).items():
        sums[name].add_(x)
    yield Hold((*block, *own.values(), *grads))
    for step in range(size):
        source, sees = job.before(number, step)
        if step + 1 < size:
            yield Send(block)
        if sees:
            with torch.enable_grad():
                leaves = {name: x.detach() for name, x in (("q", q), *own.items())}
                met = [x.detach() for x in block]
                wanted = [leaves[name] for name in learned] + [met[n] for n in moving]
                wanted = [x.requires_grad_() for x in wanted]
                inner = {name: leaves[name] for name in own}
                part, part_lse = job.met(number, source, leaves["q"], met, inner)
            share = (part_lse - lse.masked_fill(lse == -torch.inf, 0.0)).exp()
            of_part = share[..., None] * grad
            # What a part weighs among all is its own doing too.
            of_lse = (of_part * (part.detach() - out)).sum(-1)
            cotangents = of_part.to(part.dtype), of_lse
            made = torch.autograd.grad((part, part_lse), wanted, cotangents, allow_unused=True)
            for name, x in zip(learned, made[: len(learned)], strict=True):
                if x is not None:
                    sums[name].add_(x)
            for total, x in zip(grads, made[len(learned) :], strict=True):
                if x is not None:
                    total.add_(x)
            # Nothing of this meeting is kept while the next keys come.
            del part, part_lse, made, wanted, met, leaves, inner
        if step + 1 < size:
            block = yield Receive()
        if size > 1 and grads:
            yield Send(grads)
            # In the end they are with whose keys they are of.
            grads = yield Receive()
    sums |= {names[place]: total for place, total in zip(moving, grads, strict=True)}
    return {name: sums[name] if needs[name] else None for name in ("q", "k", "v", *job.names)}


def _of_sink(
    job: Job,
    number: int,
    q: Tensor,
    own: dict[Path, Tensor],
    found: tuple[Tensor, Tensor, Tensor],
    learned: list[Any],
) -> dict[Any, Tensor]:
    """What sinks learn, as a part whose output is zero."""
    out, lse, grad = found
    names = [name for name in learned if name in own and _is_sink(job, number, name)]
    if not names:
        return {}
    with torch.enable_grad():
        leaves = {name: own[name].detach().requires_grad_() for name in names}
        of_sink = job.nothing_met(number, q, own | leaves)
    cotangent = -(of_sink.detach() - lse).exp() * (grad.to(job.dtype) * out).sum(-1)
    made = torch.autograd.grad(of_sink, [leaves[name] for name in names], cotangent)
    return dict(zip(names, made, strict=True))


def _is_sink(job: Job, number: int, path: Path) -> bool:
    return isinstance(job.terms[number][int(path[0])], SinkLogit)


class Ring(torch.autograd.Function):
    """Inputs are, for each rank here, q, k, v and the tensors of its terms by `names`."""

    @staticmethod
    def forward(ctx: Any, job: Job, *flat: Tensor) -> tuple[Tensor, ...]:
        programs = []
        for number, (q, k, v, own) in enumerate(_by_rank(job, flat)):
            block = (k, v, *(own[path] for path in job.keys))
            programs.append(_forward(job, number, q, block, own))
        found = job.comm.run("forward", programs)
        outs, lses = zip(*found, strict=True)
        ctx.job = job
        ctx.save_for_backward(*flat, *outs, *lses)
        width = len(flat) // len(programs)
        return tuple(out.to(v.dtype) for out, v in zip(outs, flat[2::width], strict=True))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            raise UnsupportedError(
                "ring_attend has no gradient of its gradient: use ulysses_attend with "
                "backend='reference' where create_graph=True"
            )
        job: Job = ctx.job
        count = len(job.comm.ranks)
        saved = ctx.saved_tensors
        flat, outs, lses = saved[: -2 * count], saved[-2 * count : -count], saved[-count:]
        width = len(flat) // count
        order = ("q", "k", "v", *job.names)
        programs = []
        for number, (q, k, v, own) in enumerate(_by_rank(job, flat)):
            block = (k, v, *(own[path] for path in job.keys))
            wanted = ctx.needs_input_grad[1 + number * width : 1 + (number + 1) * width]
            needs = dict(zip(order, wanted, strict=True))
            found = outs[number], lses[number], grads[number]
            programs.append(_backward(job, number, q, block, own, found, needs))
        results = job.comm.run("backward", programs)
        made = [result[name] for result in results for name in order]
        fitted_grads = (
            None if x is None else x.to(like.dtype) for x, like in zip(made, flat, strict=True)
        )
        return None, *fitted_grads


def _by_rank(
    job: Job, flat: Sequence[Tensor]
) -> Iterator[tuple[Tensor, Tensor, Tensor, dict[Path, Tensor]]]:
    """q, k, v and the tensors of terms by name, of each rank here."""
    width = len(flat) // len(job.comm.ranks)
    for start in range(0, len(flat), width):
        q, k, v, *rest = flat[start : start + width]
        yield q, k, v, dict(zip(job.names, rest, strict=True))
