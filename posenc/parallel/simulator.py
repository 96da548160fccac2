"""All ranks one after another in this process, with what each sends and holds counted."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from posenc.parallel.communication import Exchange, Program, Receive, Request, Send


@dataclass
class Traffic:
    """What a pass cost, of each rank in bytes.

    sent  to other ranks
    peak  most that was held at one time of what was sent, received or said to be in use: keys,
          values, terms, and in the backward pass their gradients
    """

    sent: list[int]
    peak: list[int]


@dataclass
class Simulator:
    """Stands in for a process group: `ring` and `ulysses` run every rank of `size` by it.

    traffic  by phase, "forward" and "backward"

    Example: `outs = ring(Simulator(4), qs, ks, vs, encoding, positions=whole)`.
    """

    size: int
    traffic: dict[str, Traffic] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ranks: tuple[int, ...] = tuple(range(self.size))
        # Of every rank the bytes of each tensor that is alive, by its identity.
        self._alive: list[dict[int, int]] = [{} for _ in self.ranks]

    def run(self, phase: str, programs: Sequence[Program]) -> list[Any]:
        """What the programs of all ranks return, each led to its next request in turn."""
        count = self.traffic.setdefault(phase, Traffic([0] * self.size, [0] * self.size))
        answers: list[Any] = [None] * self.size
        sent: list[tuple[Tensor, ...]] = []
        while True:
            requests: list[Request] = []
            results: list[Any] = []
            for program, answer in zip(programs, answers, strict=True):
                try:
                    requests.append(program.send(answer))
                except StopIteration as end:
                    results.append(end.value)
            if results:
                assert not requests, "some ranks ended while others wait for them"
                return results
            answers = [None] * self.size
            for rank, request in enumerate(requests):
                assert type(request) is type(requests[0]), "ranks ask for different things"
                self._count(count, rank, request)
            if isinstance(requests[0], Send):
                sent = [request.tensors for request in requests if isinstance(request, Send)]
                # As over a wire: what arrives is other memory, there from now on.
                sent = [tuple(x.detach().clone() for x in tensors) for tensors in sent]
                for rank in self.ranks:
                    self._hold(count, rank, sent[rank - 1])
            elif isinstance(requests[0], Receive):
                answers = [sent[rank - 1] for rank in self.ranks]
                sent = []
            elif isinstance(requests[0], Exchange):
                parts = [request.tensors for request in requests if isinstance(request, Exchange)]
                for rank in self.ranks:
                    answers[rank] = tuple(own[rank].detach().clone() for own in parts)
                    self._hold(count, rank, answers[rank])

    def _count(self, count: Traffic, rank: int, request: Request) -> None:
        if isinstance(request, Receive):
            return
        self._hold(count, rank, request.tensors)
        if isinstance(request, Send):
            count.sent[rank] += sum(map(_bytes, request.tensors))
        elif isinstance(request, Exchange):
            count.sent[rank] += sum(map(_bytes, request.tensors)) - _bytes(request.tensors[rank])

    def _hold(self, count: Traffic, rank: int, tensors: tuple[Tensor, ...]) -> None:
        alive = self._alive[rank]
        for x in tensors:
            if id(x) not in alive:
                alive[id(x)] = _bytes(x)
                weakref.finalize(x, alive.pop, id(x), None)
        count.peak[rank] = max(count.peak[rank], sum(alive.values()))


def _bytes(x: Tensor) -> int:
    return x.numel() * x.element_size()
