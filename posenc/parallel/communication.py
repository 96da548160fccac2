"""What ranks send to one another, so that an algorithm is written once: as the program of a rank.

A program is a generator. It yields what it asks for, and goes on with what came of that; whoever
runs it talks to other processes (`process_group`), or runs all ranks one after another in this one
(`simulator`).
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Send:
    """Begin to send these to the next rank; those of the last go to the first."""

    tensors: tuple[Tensor, ...]


@dataclass(frozen=True)
class Receive:
    """Wait for what was sent: it gives what came from the rank before."""


@dataclass(frozen=True, eq=False)
class Exchange:
    """One tensor for every rank, all of one shape: it gives what every rank has for this one."""

    tensors: tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Hold:
    """These are in use by now: for whoever counts memory, and nothing else."""

    tensors: tuple[Tensor, ...]


Request = Send | Receive | Exchange | Hold
Program = Generator[Request, Any, Any]


class Communicator(Protocol):
    """Who runs programs.

    size   how many ranks there are
    ranks  those whose programs run in this process
    """

    size: int
    ranks: tuple[int, ...]

    def run(self, phase: str, programs: Sequence[Program]) -> list[Any]:
        """What the programs of `ranks` return; phase is "forward" or "backward"."""
        ...


def exchange(comm: Communicator, parts: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
    """Of each rank here one tensor for every rank: what it gets of every rank, differentiably.

    Gradients go back by the same way.
    """
    if comm.size == 1:
        return [list(own) for own in parts]
    flat = [x for own in parts for x in own]
    return _by_rank(_Exchange.apply(comm, *flat), comm.size)


def hold(comm: Communicator, tensors: Sequence[Sequence[Tensor]]) -> None:
    """Say what each rank here has in use by now."""

    def program(own: Sequence[Tensor]) -> Program:
        yield Hold(tuple(own))

    comm.run("forward", [program(own) for own in tensors])


def _by_rank(flat: Sequence[Tensor], size: int) -> list[list[Tensor]]:
    return [list(flat[start : start + size]) for start in range(0, len(flat), size)]


def _exchanged(comm: Communicator, phase: str, flat: Sequence[Tensor]) -> tuple[Tensor, ...]:
    def program(own: Sequence[Tensor]) -> Program:
        return (yield Exchange(tuple(own)))

    programs = [program(own) for own in _by_rank(flat, comm.size)]
    return tuple(x for got in comm.run(phase, programs) for x in got)


class _Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, comm: Communicator, *flat: Tensor) -> tuple[Tensor, ...]:
        ctx.comm = comm
        return _exchanged(comm, "forward", flat)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        # What came from a rank has its gradient sent there, and so it is exchanged again.
        return None, *_exchanged(ctx.comm, "backward", grads)
