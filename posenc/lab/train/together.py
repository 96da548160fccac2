"""Several processes that share every batch: DistributedDataParallel or fully_shard."""

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from posenc.api import Transformer
from posenc.errors import SettingError
from posenc.lab.checkpoint import Clock, save_tensors
from posenc.lab.config import RunConfig
from posenc.lab.folder import CHECKPOINT, WEIGHTS
from posenc.lab.hardware import chosen_device
from posenc.lab.processes import LARGEST_NORM
from posenc.lab.train import resharding
from posenc.lab.train.given import How
from posenc.lab.train.sharding import recompute, shard

T = TypeVar("T")


class Together:
    """Processes of one group, and how they share a run."""

    def __init__(self, rank: int, count: int, device: torch.device, how: How) -> None:
        self.rank, self.count, self.device, self.how = rank, count, device, how
        self.parts = how.accumulate
        self.shards = count if how.shards is None else how.shards
        if self.shards < 1 or count % self.shards:
            raise SettingError(
                f"shards is {self.shards}: it must divide the number of processes, {count}"
            )

    def check(self, config: RunConfig) -> None:
        """Raise SettingError for a run that these processes cannot share."""
        pieces = self.count * self.parts
        if pieces > config.batch:
            raise SettingError(
                f"batch is {config.batch}, but {self.count} processes that read their share in "
                f"{self.parts} parts need {pieces} examples: take fewer of them, or a larger batch"
            )
        if config.model:
            raise SettingError(
                f"model is {config.model!r}: several processes train posenc's own Transformer "
                "alone; leave model out"
            )

    def first(self, find: Callable[[], T]) -> T:
        told: list[tuple[T | None, Exception | None]] = [(None, None)]
        if self.rank == 0:
            try:
                told = [(find(), None)]
            except Exception as error:
                told = [(None, error)]
        dist.broadcast_object_list(told, src=0, device=torch.device("cpu"))
        found, error = told[0]
        if error is not None:
            raise error
        return cast(T, found)

    def spread(self, model: nn.Module, config: RunConfig) -> tuple[nn.Module, nn.Module]:
        model = cast(Transformer, model)
        if self.how.checkpoint_activations:
            recompute(model)
        run: nn.Module = self._placed(model, config.precision == "bfloat16")
        if self.how.parallel == "ddp":
            run = DistributedDataParallel(model)
        return model, cast(nn.Module, torch.compile(run)) if config.compile else run

    def _placed(self, model: Transformer, low: bool) -> Transformer:
        if self.how.parallel == "ddp":
            return model.to(self.device)
        sizes, names = (self.count // self.shards, self.shards), ("replicate", "shard")
        mesh = init_device_mesh(self.device.type, sizes, mesh_dim_names=names)
        shard(model, mesh["shard"] if self.shards == self.count else mesh, low)
        return model

    def part(self, run: nn.Module, last: bool) -> AbstractContextManager[object]:
        run = getattr(run, "_orig_mod", run)
        if isinstance(run, DistributedDataParallel) and not last:
            return run.no_sync()
        return nullcontext()

    def clip(self, model: nn.Module) -> None:
        held = [p for p in model.parameters() if p.requires_grad]
        cut = [p for p in held if isinstance(p, DTensor)]
        whole = [p for p in held if not isinstance(p, DTensor)]
        if self.how.parallel == "fsdp":
            self._join(whole)
        norms = [
            nn.utils.get_total_norm([p.grad for p in own if p.grad is not None])
            for own in (cut, whole)
        ]
        norms = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
        norm = torch.linalg.vector_norm(torch.stack([n.to(self.device) for n in norms]))
        for own in (cut, whole):
            nn.utils.clip_grads_with_norm_(own, LARGEST_NORM, norm)

    def _join(self, whole: list[nn.Parameter]) -> None:
        """Mean gradients of what fully_shard leaves whole."""
        gradients = [p.grad for p in whole if p.grad is not None]
        if not gradients:
            return
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.count
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, mean in zip(gradients, flat.split(sizes), strict=True):
            gradient.copy_(mean.view_as(gradient))

    def summed(self, loss: Tensor) -> Tensor:
        dist.all_reduce(loss)
        return loss

    def save(
        self, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, clock: Clock
    ) -> None:
        resharding.save(folder, model, optimizer, clock, self.first)

    def load(self, folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Clock:
        return resharding.load(folder, model, optimizer, self.first)

    def forget(self, folder: Path) -> None:
        self.first(lambda: resharding.forget(folder))
        self.first(lambda: (folder / CHECKPOINT).unlink(missing_ok=True))

    def keep(self, folder: Path, model: nn.Module, told: dict[str, str]) -> None:
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        weights: dict[str, Any] = get_model_state_dict(model, options=options)
        self.first(lambda: save_tensors(folder / WEIGHTS, weights, told))

    def to_test(self, trained: nn.Module | None, load: Callable[[], nn.Module]) -> nn.Module:
        # What was trained in bfloat16 has shares of that kind; tests are in float32.
        return self._placed(cast(Transformer, load()), low=False)


@contextlib.contextmanager
def group(asked: str = "auto") -> Iterator[tuple[int, int, torch.device]]:
    """The group that torchrun started, or one of this process alone: rank, count and device.

    On GPUs each process takes the one of its number on its machine, and they talk by NCCL;
    elsewhere by gloo. Raises SettingError where a machine has fewer GPUs than processes.
    """
    device = torch.device(
        chosen_device(asked if asked != "auto" else "cuda" if torch.cuda.is_available() else "cpu")
    )
    backend = "gloo"
    if device.type == "cuda":
        here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        if here > torch.cuda.device_count():
            raise SettingError(
                f"{here} processes on a machine of {torch.cuda.device_count()} GPUs: start as many "
                "as there are with --nproc-per-node, or give --device cpu"
            )
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        # What is told of a step is no tensor on a GPU, and must not wait for one.
        backend = "cpu:gloo,cuda:nccl"
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield dist.get_rank(), dist.get_world_size(), device
    finally:
        dist.destroy_process_group()
