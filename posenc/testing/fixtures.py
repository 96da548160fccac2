"""What the checks share: inputs that fit an encoding, and comparisons that say by how much."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

import torch
from torch import Tensor, nn

from posenc.analysis.probe_context import context_for, embeds, sizes_for
from posenc.attention import attend
from posenc.backends import BACKENDS
from posenc.encoding import Context, Encoding, Pairs
from posenc.errors import CheckError
from posenc.lowering import embeds_only, lower
from posenc.model import Transformer
from posenc.positions import Positions
from posenc.terms import Mask, Term

VOCABULARY = 19
LENGTH = 9


def when(condition: Callable[[Encoding], object]) -> Callable:
    """Mark a check as asked only of encodings that meet a condition on their tags or kind."""

    def mark(check: Callable[[Encoding], None]) -> Callable[[Encoding], None]:
        setattr(check, "when", condition)  # noqa: B010 - functions have no declared attributes
        return check

    return mark


def needs(*modules: str) -> Callable:
    """Mark a check as skipped where one of these modules is not installed."""

    def mark(check: Callable[[Encoding], None]) -> Callable[[Encoding], None]:
        setattr(check, "needs", modules)  # noqa: B010 - functions have no declared attributes
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


def copy_of(encoding: Encoding, dtype: torch.dtype = torch.float64) -> Encoding:
    """A copy with its parameters moved off their initial values, so that zeros hide nothing."""
    made = copy.deepcopy(encoding)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in made.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.5 * noise.to(parameter.dtype))
    return made.to(dtype).eval()


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


def in_float64(context: Context | None) -> Context | None:
    """The same context for a float64 copy of the encoding, which makes its own payload."""
    if context is None or context.x is None:
        return context
    return replace(context, x=context.x.double(), payload=None)


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


def causalities(encoding: Encoding) -> list[bool]:
    return [True] if encoding.tags.causal_only else [True, False]


def backends_for(encoding: Encoding) -> list[str]:
    """Backends that do not refuse this encoding."""
    from posenc.attention import build_call

    q, k, v = qkv(encoding)
    context = context_for(encoding)
    call = build_call(q, k, v, copy_of(encoding), causal=True, context=context)
    return [name for name, module in BACKENDS.items() if module.unsupported_reason(call) is None]


def shifted(offset: int, length: int = LENGTH, causal: bool = True) -> Positions:
    """Consecutive positions that start at offset."""
    at = torch.arange(offset, offset + length)
    return Positions.build(ids=at, causal=causal)


def scattered(axes: int) -> Tensor:
    """Coordinates (2, LENGTH, axes) without order, different on each axis and in each row."""
    return torch.arange(2 * LENGTH * axes).view(2, LENGTH, axes).square() % 11


def pairs_for(q: Tensor, positions: Positions, context: Context | None = None) -> Pairs:
    """What references read of these positions, for a batch as large as that of q."""

    def rows(values: Tensor) -> Tensor:
        return values.expand(len(q), *values.shape[min(values.ndim - 1, 1) :])

    q_at, k_at = (rows(side.position).double() for side in (positions.queries, positions.keys))
    q_order, k_order = map(rows, positions.orders())
    return Pairs(q_at, k_at, q.shape[-1] ** -0.5, context, q_order, k_order)


class Whole(nn.Module):
    """Embedding and attention of one encoding as one graph, from x and its projections."""

    def __init__(self, encoding: Encoding) -> None:
        super().__init__()
        sizes = sizes_for(encoding)
        self.encoding, self.heads = encoding, sizes.heads
        self.causal = True

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
    """Raise CheckError with the largest error, relative to values above 1."""
    if tolerance > 0:
        tolerance = max(tolerance, _TOLERATED.get())
    require(
        actual.shape == expected.shape,
        f"{what}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}",
    )
    actual, expected = actual.detach().double(), expected.detach().double()
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    error = ((actual - expected).abs() / expected.abs().clamp(min=1.0)).masked_fill(same, 0.0)
    error = error.nan_to_num(nan=torch.inf, posinf=torch.inf)
    worst = error.max().item() if error.numel() else 0.0
    require(worst <= tolerance, f"{what}: off by {worst:.3g}, at most {tolerance:.3g} is allowed")
