"""What the checks share: inputs that fit an encoding, and comparisons that say by how much."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from posenc.analysis.probe_context import context_for, embeds, sizes_for
from posenc.attention import attend, build_call
from posenc.attention_parts import scores
from posenc.backends import BACKENDS
from posenc.encoding import Context, Encoding
from posenc.errors import CheckError
from posenc.lowering import Part, embeds_only, lower
from posenc.model import Transformer
from posenc.positions import Positions
from posenc.terms import Mask, Term
from posenc.testing.agreement import distance

VOCABULARY = 19
LENGTH = 9
Check = Callable[[Encoding], None]


def when(condition: Callable[[Encoding], object]) -> Callable[[Check], Check]:
    """Mark a check as asked only of encodings that meet a condition on their tags or kind."""
    return _marked("when", condition)


def needs(*modules: str) -> Callable[[Check], Check]:
    """Mark a check as skipped where one of these modules is not installed."""
    return _marked("needs", modules)


def _marked(name: str, value: object) -> Callable[[Check], Check]:
    def mark(check: Check) -> Check:
        # Functions have no declared attributes.
        setattr(check, name, value)
        return check

    return mark


def attends(encoding: Encoding) -> bool:
    """Whether it has terms, so that attend and scores take it."""
    return not embeds_only(encoding)


def hides(encoding: Encoding) -> bool:
    """Whether it brings a mask of its own."""
    return attends(encoding) and any(isinstance(term, Mask) for term in terms_of(encoding))


def terms_of(encoding: Encoding) -> tuple[Term, ...]:
    """What it lowers to for a causal input."""
    context = context_for(encoding, LENGTH)
    return lower(encoding, Positions.build(LENGTH, causal=True), context=context).terms


def causalities(encoding: Encoding) -> list[bool]:
    return [True] if encoding.tags.causal_only else [True, False]


def copy_of(encoding: Encoding) -> Encoding:
    """A float64 copy with its parameters moved off their initial values, so zeros hide nothing.

    Those that are fixed learn in it, for its user may let them.
    """
    moved = copy.deepcopy(encoding)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in moved.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.5 * noise.to(parameter.dtype))
    return moved.double().eval().requires_grad_()


def qkv(
    encoding: Encoding,
    q_len: int = LENGTH,
    k_len: int | None = None,
    dtype: torch.dtype = torch.float64,
    batch: int = 2,
) -> tuple[Tensor, Tensor, Tensor]:
    """Random queries, keys and values with grouped heads."""
    sizes, k_len = sizes_for(encoding), q_len if k_len is None else k_len
    generator = torch.Generator().manual_seed(11)

    def draw(heads: int, length: int) -> Tensor:
        shape = (batch, heads, length, sizes.head_dim)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    return draw(sizes.heads, q_len), draw(sizes.kv_heads, k_len), draw(sizes.kv_heads, k_len)


@dataclass(frozen=True, eq=False)
class Trial:
    """An encoding off its initial values, with inputs of its sizes, random but fixed.

    x        what it may embed, (b, tq, c)
    q, k, v  queries, and as many or more keys and values, of grouped heads
    context  what it may read of its layer
    """

    encoding: Encoding
    x: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    context: Context | None

    @classmethod
    def of(
        cls,
        encoding: Encoding,
        q_len: int = LENGTH,
        k_len: int | None = None,
        dtype: torch.dtype = torch.float64,
        batch: int = 2,
    ) -> "Trial":
        k_len = q_len if k_len is None else k_len
        generator = torch.Generator().manual_seed(17)
        shape = (batch, q_len, sizes_for(encoding).model_dim)
        x = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        context = context_for(encoding, k_len, dtype, batch)
        drawn = qkv(encoding, q_len, k_len, dtype, batch)
        return cls(copy_of(encoding).to(dtype), x, *drawn, context)

    @property
    def qkv(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.q, self.k, self.v

    def to(self, to: torch.dtype | str) -> "Trial":
        """The same in another dtype or on another device."""
        x, q, k, v = (tensor.to(to) for tensor in (self.x, *self.qkv))
        context = self.context
        if context is not None and context.x is not None:
            # The payload was made from the old x; the encoding makes another.
            context = replace(context, x=context.x.to(to), payload=None)
        return Trial(copy.deepcopy(self.encoding).to(to), x, q, k, v, context)

    def embed(self, positions: Positions) -> Tensor:
        return self.encoding.embed(self.x, positions)

    def scores(self, *beside: Part, **where: Any) -> Tensor:
        """`posenc.scores` of this encoding and what stands beside it; `where` as there."""
        return scores(self.q, self.k, [self.encoding, *beside], context=self.context, **where)

    def attend(self, *beside: Part, **where: Any) -> Tensor:
        """`posenc.attend` of this encoding and what stands beside it; `where` as there."""
        return attend(*self.qkv, [self.encoding, *beside], context=self.context, **where)

    def results(self, positions: Positions) -> dict[str, Tensor]:
        """What it embeds, and scores and output of attention: those of them that it has."""
        results = {"embed": self.embed(positions)} if embeds(self.encoding) else {}
        if attends(self.encoding):
            results["scores"] = self.scores(positions=positions)
            results["output"] = self.attend(positions=positions)
        return results


def backends_for(encoding: Encoding) -> list[str]:
    """Backends that do not refuse this encoding."""
    trial = Trial.of(encoding)
    call = build_call(*trial.qkv, trial.encoding, causal=True, context=trial.context)
    return [name for name, module in BACKENDS.items() if module.unsupported_reason(call) is None]


def repeated(k: Tensor, heads: int) -> Tensor:
    """Key heads repeated for query heads, written out: the check of `equation.group`."""
    share = heads // k.shape[1]
    return torch.stack([k[:, head // share] for head in range(heads)], dim=1)


def model_for(
    encoding: Encoding, causal: bool = True, depth: int = 2, masks: Sequence[Encoding] = ()
) -> Transformer:
    """A small float64 Transformer around a copy of the encoding, with more masks beside it."""
    sizes = sizes_for(encoding)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = Transformer(
            VOCABULARY,
            sizes.heads * sizes.head_dim,
            depth,
            sizes.heads,
            [copy_of(encoding), *masks],
            kv_heads=sizes.kv_heads,
            causal=causal,
        )
    return model.double().eval()


def tokens_for(length: int = LENGTH, batch: int = 2, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (batch, length), generator=generator)


def shifted(offset: int, length: int = LENGTH, causal: bool = True) -> Positions:
    """Consecutive positions that start at offset."""
    return Positions.build(ids=torch.arange(offset, offset + length), causal=causal)


def unordered() -> Positions:
    """Unordered, repeated positions, different in each row."""
    rows = torch.stack([torch.arange(LENGTH) * 7 % 11, torch.arange(LENGTH).flip(0)])
    return Positions.build(ids=rows)


def scattered(axes: int) -> Tensor:
    """Coordinates (2, LENGTH, axes) without order, different on each axis and in each row."""
    return torch.arange(2 * LENGTH * axes).view(2, LENGTH, axes).square() % 11


class Whole(nn.Module):
    """Embedding and attention of one encoding as one graph, from x and its projections."""

    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        self.encoding, self.heads = encoding, sizes_for(encoding).heads

    def input(self, length: int) -> Tensor:
        width = self.heads * sizes_for(self.encoding).head_dim
        return torch.randn(2, length, width, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        if embeds(self.encoding):
            x = self.encoding.embed(x, Positions.build(x.shape[1]))
        if embeds_only(self.encoding):
            return x
        q = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        context = self._context(x) if self.encoding.tags.needs_context else None
        return attend(q, q.flip(1), q.cos(), self.encoding, causal=True, context=context)

    def _context(self, x: Tensor) -> Context:
        def to_heads(table: Tensor) -> Tensor:
            return table.cos().unflatten(-1, (self.heads, -1)).transpose(0, 1)

        return Context(x, None, to_heads, to_heads)


def require(condition: bool, failure: str) -> None:
    if not condition:
        raise CheckError(failure)


# What rounding of code that computes in less than float64 may do to every comparison.
_TOLERATED: ContextVar[float] = ContextVar("tolerated", default=0.0)


@contextmanager
def tolerating(tolerance: float) -> Iterator[None]:
    """Errors up to `tolerance` are allowed in what follows, but not where bits must be the same."""
    before = _TOLERATED.set(tolerance)
    try:
        yield
    finally:
        _TOLERATED.reset(before)


def require_close(actual: Tensor, expected: Tensor, tolerance: float, what: str) -> None:
    """Raise CheckError with the largest error, relative to values above 1; NaN equals NaN."""
    if tolerance > 0:
        tolerance = max(tolerance, _TOLERATED.get())
    shapes = f"shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    require(actual.shape == expected.shape, f"{what}: {shapes}")
    both = actual.isnan() & expected.isnan()
    worst = distance(actual.masked_fill(both, 0.0), expected.masked_fill(both, 0.0))
    require(worst <= tolerance, f"{what}: off by {worst:.3g}, at most {tolerance:.3g} is allowed")
