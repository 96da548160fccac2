"""Tensor parallelism: each rank has some of the heads of every layer, and their terms."""

from typing import Any, cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from posenc.encoding import Context
from posenc.encoding_lists import owned
from posenc.errors import ShapeError, UnsupportedError
from posenc.joint_payload import keeps
from posenc.lowering import Lowerable, Lowered, flatten, lower
from posenc.model import Attention, Transformer
from posenc.parallel.heads import heads_of
from posenc.terms import Term, turns_in
from posenc.torch_modes import altered


def split_heads(model: Transformer, mesh: DeviceMesh) -> Transformer:
    """The same model, of which each rank of a mesh of one dimension computes some heads.

    Queries, keys, values and the perceptron's first layer are cut by columns, what follows by
    rows, with torch's parallelize_module. Encodings stay whole on every rank: terms are made once
    and cut to the rank's heads, and what the heads of all ranks say of a parameter is summed in
    the backward pass, so that every rank has its whole gradient. Give each rank the same tokens.

    Raises ShapeError where ranks do not divide the heads. A model that is cut decodes with caches,
    but where an encoding keeps a payload of every token (gates, PaTH): there it raises
    UnsupportedError.

    Example: `split_heads(model, init_device_mesh("cuda", (8,), mesh_dim_names=("tp",)))`.

    Source: Shoeybi et al. 2019, arXiv:1909.08053, section 3.
    """
    for block in model.blocks:
        attention = cast(Attention, block.attention)
        for name, heads in (("heads", attention.heads), ("kv_heads", attention.kv_heads)):
            if heads % mesh.size():
                raise ShapeError(
                    f"split_heads over {mesh.size()} ranks: {name}={heads} is no multiple of it"
                )
        columns, rows = ColwiseParallel, RowwiseParallel
        plan = {f"attention.{name}": columns() for name in ("query", "key", "value")}
        plan |= {"attention.out": rows(), "up": columns(), "down": rows()}
        parallelize_module(block, mesh, cast(Any, plan))
        attention.register_forward_pre_hook(_Own(mesh, attention.heads), with_kwargs=True)
        attention.heads //= mesh.size()
        attention.kv_heads //= mesh.size()
    return model


class _Own:
    """Gives a layer the terms of its rank's heads in place of all."""

    def __init__(self, mesh: DeviceMesh, heads: int) -> None:
        self.mesh, self.heads = mesh, heads

    def __call__(
        self, attention: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        attention = cast(Attention, attention)
        x = args[0]
        lowered = args[1] if len(args) > 1 else None
        if not isinstance(lowered, Lowered):
            memory = kwargs.get("memory")
            encoding = owned(attention.encodings) if lowered is None else lowered
            if kwargs.get("cache") is not None:
                _refuse_payloads(encoding)
            own = (self._projector(attention.query), self._projector(attention.key))
            lowered = lower(
                encoding,
                x.shape[1] if kwargs.get("positions") is None else kwargs["positions"],
                causal=attention.causal,
                context=Context(x if memory is None else memory, None, *own),
            )
        terms = [_summed(term, self.mesh) for term in lowered.terms]
        count = self.heads // self.mesh.size()
        cut = heads_of(lowered.with_terms(terms), self.mesh.get_local_rank() * count, count)
        return (x, cut), kwargs | {"positions": None}

    def _projector(self, project: nn.Linear) -> Any:
        def to_heads(table: Tensor) -> Tensor:
            weight = cast(DTensor, project.weight).full_tensor()
            rows = F.linear(table, weight.to(table.dtype))
            rows = rows.unflatten(-1, (-1, project.in_features // self.heads)).transpose(0, 1)
            return rows.repeat_interleave(self.heads // rows.shape[0], dim=0)

        return to_heads


def _refuse_payloads(encoding: Lowerable) -> None:
    """Raise UnsupportedError for what a cache would keep: terms that come lowered bring none."""
    part = next(filter(keeps, flatten(encoding)), None)
    if part is not None:
        raise UnsupportedError(
            f"split_heads: {part!r} keeps a payload of every token, which caches of a model that "
            "is cut by heads do not hold: leave the cache away, or decode with the whole model"
        )


def _summed(term: Term, mesh: DeviceMesh) -> Term:
    """The same term, whose gradient is the sum over all ranks."""
    turns = {name: _summed(turn, mesh) for name, turn in turns_in(term).items()}
    if turns:
        return altered(term, **turns)
    # By identity, so that queries and keys that share angles go on to share them.
    found: dict[int, Tensor] = {}
    fields = {}
    for name, x in vars(term).items():
        if isinstance(x, Tensor) and x.requires_grad:
            found.setdefault(id(x), cast(Tensor, _Summed.apply(x, mesh.get_group())))
            fields[name] = found[id(x)]
    return altered(term, **fields) if fields else term


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        whole = gradients[0].contiguous().clone()
        dist.all_reduce(whole, group=ctx.group)
        return whole, None
