"""The ranks of a torch.distributed process group, of which this process is one."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from posenc.errors import UnsupportedError
from posenc.parallel.communication import Exchange, Program, Receive, Send


class ProcessGroup:
    """Runs the program of this process's rank; `group` None is the group of all processes.

    Raises UnsupportedError where torch.distributed is not initialised, and in a process that is
    no rank of the group.
    """

    def __init__(self, group: dist.ProcessGroup | DeviceMesh | None = None) -> None:
        if not (dist.is_available() and dist.is_initialized()):
            raise UnsupportedError(
                "there is no process group: call torch.distributed.init_process_group first, or "
                "run all ranks in one process by posenc.parallel.Simulator"
            )
        self.group = group = group.get_group() if isinstance(group, DeviceMesh) else group
        self.size = dist.get_world_size(group)
        self.rank = dist.get_rank(group)
        if self.rank < 0:
            raise UnsupportedError(
                f"rank {dist.get_rank()} of all processes is no rank of this group: call it there "
                "alone, or give every process the group that it is in"
            )
        self.ranks: tuple[int, ...] = (self.rank,)

    def run(self, phase: str, programs: Sequence[Program]) -> list[Any]:
        (program,) = programs
        answer: Any = None
        pending: tuple[list[Any], tuple[Tensor, ...]] = ([], ())
        while True:
            try:
                request = program.send(answer)
            except StopIteration as end:
                return [end.value]
            answer = None
            if isinstance(request, Send):
                pending = self._begin(request.tensors)
            elif isinstance(request, Receive):
                for work in pending[0]:
                    work.wait()
                answer = pending[1]
            elif isinstance(request, Exchange):
                answer = self._exchange(request.tensors)

    def _begin(self, tensors: tuple[Tensor, ...]) -> tuple[list[Any], tuple[Tensor, ...]]:
        sent = [x.contiguous() for x in tensors]
        received = tuple(torch.empty_like(x) for x in sent)
        after, before = self._global(self.rank + 1), self._global(self.rank - 1)
        ops = [dist.P2POp(dist.isend, x, after, self.group, n) for n, x in enumerate(sent)]
        ops += [dist.P2POp(dist.irecv, x, before, self.group, n) for n, x in enumerate(received)]
        return dist.batch_isend_irecv(ops), received

    def _exchange(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        # Tensors that are channels-last would be stacked so.
        sent = torch.stack(tensors).contiguous()
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=self.group)
        return received.unbind()

    def _global(self, rank: int) -> int:
        rank %= self.size
        return rank if self.group is None else dist.get_global_rank(self.group, rank)
