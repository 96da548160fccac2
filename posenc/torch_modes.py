"""What a call runs in: the dtype of its arithmetic, autocast, threads, what watches its tensors;
and what is kept between calls, which graphs do without.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch._C import _is_tracing, _len_torch_dispatch_stack
from torch._C._functorch import (
    is_batchedtensor,
    is_legacy_batchedtensor,
    peek_interpreter_stack,
)
from torch.autograd import forward_ad
from torch.nn import Parameter

_T = TypeVar("_T")
# In which attention is computed.
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
Versions = list[tuple[int, int, int, bool]]
# OpenMP's threads are those of the process that started them.
_PROCESS = os.getpid()


def arithmetic(*tensors: Tensor) -> torch.dtype:
    """float64 if any tensor is, else float32."""
    for tensor in tensors:
        if tensor.dtype == torch.float64:
            return torch.float64
    return torch.float32


def cast_to(dtype: torch.dtype, x: Tensor) -> Tensor:
    """x in this dtype; to ask first takes a tenth of what a cast to its own dtype does."""
    return x if x.dtype == dtype else x.to(dtype)


def device_of(x: Tensor) -> int:
    """-1 of a CPU, a GPU by its number, and -2 where there is no memory."""
    return -2 if x.is_meta else x.get_device()


def device_type(x: Tensor) -> str:
    """Where x is; "cpu" is told without making a device, which takes longer than all else here."""
    return "cpu" if x.is_cpu else x.device.type


def autocast_off(device: torch.device) -> AbstractContextManager[object]:
    """What makes scores and tables keep at least float32 under autocast."""
    if not autocasts(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def autocasts(device: str) -> bool:
    """Whether autocast may be on, which a graph is asked when it runs."""
    # Meta tensors have shapes only, and autocast does not know their device.
    if device == "meta":
        return False
    return torch.compiler.is_compiling() or torch.is_autocast_enabled(device)


def threads() -> int:
    """How many threads a kernel of ours may use.

    OpenMP's do not survive a fork, and a child that waits for them hangs: it has one.
    """
    return torch.get_num_threads() if os.getpid() == _PROCESS else 1


def forward_mode() -> bool:
    """Whether gradients are computed forward, beside the values."""
    return forward_ad._current_level >= 0


def transformed() -> bool:
    """Whether torch.func or forward-mode differentiation wraps the tensors of this call."""
    return peek_interpreter_stack() is not None or forward_mode()


def batched(*tensors: Tensor | None) -> bool:
    """Whether a vmap maps over one of these: torch.func's, or that of `is_grads_batched`."""
    given = [x for x in tensors if x is not None]
    return any(is_legacy_batchedtensor(x) or is_batchedtensor(x) for x in given)


def exporting_to_onnx() -> bool:
    """Whether a graph is made for ONNX."""
    # Elsewhere torch.onnx is not asked: it takes long to import, and to answer.
    traces = torch.compiler.is_compiling() or torch.jit.is_tracing()
    return traces and torch.onnx.is_in_onnx_export()


def plain(*tensors: Tensor) -> bool:
    """Whether these are tensors with memory, watched by nothing but autograd."""
    for tensor in tensors:
        kind = type(tensor)
        if kind is not Tensor and kind is not Parameter:
            return False
    return unwatched()


def unwatched() -> bool:
    """Whether an eager call runs operators alone: no transform, no mode, nothing that records."""
    # Asked straight and not by `transformed`, for one call of attend asks this four times.
    return (
        _len_torch_dispatch_stack() == 0
        and peek_interpreter_stack() is None
        and forward_ad._current_level < 0
        and not _is_tracing()
    )


def altered(value: _T, /, **fields: Any) -> _T:
    """`dataclasses.replace`, of fields that fit, without asking the class to check them."""
    if torch.compiler.is_compiling():
        return replace(cast(Any, value), **fields)
    other: Any = object.__new__(type(value))
    # What is kept beside the fields was computed of others.
    other.__dict__.update(fields_of(value), **fields)
    return other


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a value, without what is kept beside them.

    As `__getstate__` it keeps that out of copies and files: it may hold addresses of the original.
    """
    return {name: x for name, x in vars(value).items() if name[0] != "_"}


def named(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, of which torch 2.7 traces no vars()."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def kept_for(
    owner: Any,
    name: str,
    settings: tuple[Any, ...],
    compute: Callable[[], _T],
    tensors: tuple[Tensor, ...] | None = None,
) -> _T:
    """What is computed of a frozen value with `tensors` and of settings; the latest is kept.

    tensors  those of the value that are read; None: any of them

    It is computed anew where one of the tensors was written to or given other memory, and in
    graphs. What has a gradient is never kept, for a second backward pass would find its graph
    freed.
    """
    if torch.compiler.is_compiling():
        return compute()
    tensors = owner.tensors if tensors is None else tensors
    if not plain(*tensors):
        return compute()
    differentiates = torch.is_grad_enabled()
    key = settings, differentiates, versions_of(tensors)
    known = owner.__dict__.get(name)
    if known is not None and known[0] == key:
        return known[1]
    if torch.is_inference_mode_enabled():
        # A later call with gradients may read what is kept.
        with torch.inference_mode(False), torch.no_grad():
            value = compute()
    else:
        value = compute()
    parts = value if isinstance(value, tuple) else (value,)
    learns = differentiates and any(isinstance(x, Tensor) and x.requires_grad for x in parts)
    # What a CUDA graph captures has no numbers before it is replayed.
    if not learns and not captured(tensors):
        owner.__dict__[name] = key, value
    return value


def settled(
    owner: Any,
    name: str,
    settings: tuple[Any, ...],
    device: torch.device,
    compute: Callable[[], _T],
) -> _T:
    """What settings alone say, on this device; the latest of each name is kept with its owner.

    It is computed anew where somebody wrote to it. A stream of a GPU has its own, for none waits
    for another, and a CUDA graph too, which would read memory that others have taken since.
    """
    if torch.compiler.is_compiling() or not unwatched():
        return compute()
    key = (*settings, device)
    if device.type == "cuda":
        if torch.cuda.is_current_stream_capturing():
            return compute()
        key = (*key, torch.cuda.current_stream(device).cuda_stream)
    # Under one name, which hides no parameter of an own class.
    kept: dict[str, Any] = owner.__dict__.setdefault("_settled", {})
    known = kept.get(name)
    if known is None or known[0] != key or known[2] != _written(known[1]):
        with torch.inference_mode(False), torch.no_grad():
            value = compute()
        known = kept[name] = key, value, _written(value)
    return known[1]


def _written(value: Any) -> list[int]:
    """How often tensors were written to."""
    return [x._version for x in (value if isinstance(value, tuple) else (value,))]


def captured(tensors: Iterable[Tensor]) -> bool:
    """Whether a CUDA graph records what is computed of these."""
    # torch without CUDA cannot be asked.
    return any(x.is_cuda for x in tensors) and torch.cuda.is_current_stream_capturing()


def fitting(kind: type[_T], /, **fields: Any) -> _T:
    """A frozen value of fields that fit, made without setting one after the other."""
    if torch.compiler.is_compiling():
        return kind(**fields)
    value: Any = object.__new__(kind)
    # What is not given is the class's default.
    value.__dict__.update(fields)
    return value


def versions_of(tensors: Iterable[Tensor]) -> Versions:
    """What changes where one of these is exchanged, written to, given other memory, or learns."""
    return [
        # Tensors of inference mode count no versions.
        (id(x), -1 if x.is_inference() else x._version, x.data_ptr(), x.requires_grad)
        for x in tensors
    ]


def kept(compute: Callable[[Any], _T]) -> _T:
    """A property of a frozen value, computed once and kept beside its fields.

    A graph computes it anew, so that no size of one call is fixed in it.
    """
    name = f"_{compute.__name__}"

    def get(owner: Any) -> _T:
        if torch.compiler.is_compiling():
            return compute(owner)
        known = owner.__dict__
        if name not in known:
            known[name] = compute(owner)
        return known[name]

    return cast(_T, property(get, doc=compute.__doc__))
