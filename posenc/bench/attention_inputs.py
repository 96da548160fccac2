"""What cases of attention run: inputs, posenc, and attention without position."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils import _pytree as pytree

import posenc as pe
from posenc.backends import BACKENDS
from posenc.bench.attention_encodings import ENCODINGS, positions
from posenc.bench.case import Call, Unavailable

# Scores of all pairs larger than this are not made: several copies of them must fit in memory.
MOST_SCORES = 640 * 2**20
# Backends whose memory is quadratic as soon as position adds to the scores.
QUADRATIC = ("sdpa", "reference")


@dataclass(frozen=True)
class AttentionSetting:
    """One attention operation: `length` keys, and as many queries unless told.

    threads  of torch; None: as the run was asked for
    dropout  of the weights, without position too
    """

    encoding: str
    length: int
    dtype: str
    causal: bool = True
    training: bool = True
    heads: int = 8
    kv_heads: int = 8
    dim: int = 64
    queries: int | None = None
    threads: int | None = None
    dropout: float = 0.0
    batch: int = 1

    def inputs(self) -> "AttentionInputs":
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        torch.manual_seed(0)
        dtype = getattr(torch, self.dtype)
        own = self.length if self.queries is None else self.queries
        q = torch.randn(self.batch, self.heads, own, self.dim).to(dtype)
        keys = self.batch, self.kv_heads, self.length, self.dim
        k, v = torch.randn(2, *keys).to(dtype).unbind()
        grad = torch.randn(q.shape).to(dtype)
        if self.training:
            q, k, v = (x.requires_grad_() for x in (q, k, v))
        return AttentionInputs(self, q, k, v, grad)

    def small(self) -> Self:
        own = None if self.queries is None else min(self.queries, 48)
        return replace(self, length=min(self.length, 48), queries=own)

    def __str__(self) -> str:
        parts = [self.encoding, f"{self.length} keys" if self.queries else f"L = {self.length}"]
        if self.kv_heads != self.heads:
            parts.append(f"{self.heads} heads on {self.kv_heads}")
        elif self.heads != 8:
            parts.append(f"{self.heads} heads")
        parts += [f"batch {self.batch}"] if self.batch > 1 else []
        parts += [] if self.causal else ["bidirectional"]
        parts += [] if self.threads is None else [f"{self.threads} thread"]
        parts += [f"dropout {self.dropout:g}"] if self.dropout else []
        return ", ".join((*parts, self.dtype))


@dataclass(frozen=True)
class AttentionInputs:
    setting: AttentionSetting
    q: Tensor
    k: Tensor
    v: Tensor
    grad: Tensor

    @cached_property
    def lowered(self) -> pe.Lowered:
        """Made when first asked for, since the run without position must not hold it."""
        setting = self.setting
        encoding = ENCODINGS[setting.encoding](setting)
        context = None
        if isinstance(encoding, pe.Encoding) and encoding.tags.needs_context:
            width = setting.heads * setting.dim
            context = pe.Context(torch.randn(setting.batch, setting.length, width))
        where = positions(setting, self.q.shape[-2])
        return _with_leaves(pe.lower(encoding, where, context=context), setting.training)

    @property
    def note(self) -> str:
        return f"auto takes {taken_by_auto(self)}"

    @property
    def learned(self) -> list[Tensor]:
        """The tensors of the normal form that get a gradient, each once."""
        tensors = [x for x in pytree.tree_leaves(self.lowered.form) if isinstance(x, Tensor)]
        return list({id(x): x for x in tensors if x.requires_grad}.values())

    def run(self, forward: Callable[[], Tensor], learned: Sequence[Tensor] = ()) -> Call:
        """forward, and in training its gradients in q, k, v and what is learned."""
        if not self.setting.training:
            return lambda: _without_gradient(forward)
        leaves = (self.q, self.k, self.v, *learned)
        return lambda: torch.autograd.grad(forward(), leaves, self.grad)


def no_position(inputs: AttentionInputs) -> Call:
    setting = inputs.setting
    options = {
        # A single query sees all keys; SDPA would align it with the first.
        "is_causal": setting.causal and setting.queries is None,
        "enable_gqa": setting.kv_heads != setting.heads,
        "dropout_p": setting.dropout,
    }
    return inputs.run(
        lambda: F.scaled_dot_product_attention(inputs.q, inputs.k, inputs.v, **options)
    )


def ours(backend: str = "auto") -> Callable[[AttentionInputs], Call]:
    """posenc with a backend, terms lowered outside, as a model does for all its layers."""

    def make(inputs: AttentionInputs) -> Call:
        if backend != "auto" and backend not in BACKENDS:
            raise Unavailable(f"no backend is called {backend}")
        if (backend if backend != "auto" else taken_by_auto(inputs)) in QUADRATIC:
            refuse_quadratic(inputs.setting)
        options = {"dropout": inputs.setting.dropout, "backend": backend}
        return inputs.run(
            lambda: pe.attend(inputs.q, inputs.k, inputs.v, inputs.lowered, **options),
            inputs.learned,
        )

    return make


def taken_by_auto(inputs: AttentionInputs) -> str:
    told = pe.explain_backend(inputs.q, inputs.k, inputs.v, inputs.lowered)
    return next(line.partition(":")[0] for line in told.splitlines() if line.endswith(": taken"))


def refuse_quadratic(setting: AttentionSetting) -> None:
    """Raise Unavailable where the scores of all pairs, in float32, would take too much memory."""
    rows = setting.length if setting.queries is None else setting.queries
    size = 4 * setting.batch * setting.heads * rows * setting.length
    if size > MOST_SCORES:
        raise Unavailable(f"memory is quadratic: the scores alone take {size / 2**30:.0f} GiB")


def _without_gradient(forward: Callable[[], Tensor]) -> Tensor:
    with torch.no_grad():
        return forward()


def _with_leaves(lowered: pe.Lowered, training: bool) -> pe.Lowered:
    """The same with learned tensors cut from their parameters, for these are the model's business.

    What leads from a parameter to the tables that backends read runs once for all layers.
    """
    leaves: dict[int, Tensor] = {}

    def cut(x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.requires_grad:
            return x
        return leaves.setdefault(id(x), x.detach().clone().requires_grad_(training))

    return pytree.tree_map(cut, lowered)
