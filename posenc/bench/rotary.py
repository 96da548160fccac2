"""Cases: queries and keys turned, against the memory floor."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

import posenc as pe
from posenc.bench.case import Call, Case, Goal
from posenc.terms import Layout, Rotate

IN_PLACE, TWICE, COPIED = "multiply in place", "multiply in place, twice", "clone"
BASE = 10_000.0
DTYPES = ("float32", "bfloat16")
LAYOUTS: tuple[Layout, ...] = ("half", "interleaved")
GROWTH = tuple(1024 << i for i in range(7))


@dataclass(frozen=True)
class Turning:
    """Queries and keys, each (batch, heads, length, dim)."""

    batch: int
    heads: int
    length: int
    dim: int
    dtype: str
    layout: Layout

    def inputs(self) -> "Turned":
        torch.manual_seed(0)
        dtype = getattr(torch, self.dtype)
        shape = (self.batch, self.heads, self.length, self.dim)
        q, k, q_grad, k_grad = (torch.randn(shape).to(dtype) for _ in range(4))
        rotary = pe.Rotary(self.dim, BASE, layout=self.layout)
        return Turned(self, q, k, q_grad, k_grad, pe.lower(rotary, self.length))

    def small(self) -> Self:
        return replace(self, heads=min(self.heads, 4), length=min(self.length, 32))

    def __str__(self) -> str:
        shape = (self.batch, self.heads, self.length, self.dim)
        return f"{shape}, {self.layout}, {self.dtype}"


@dataclass(frozen=True)
class Turned:
    setting: Turning
    q: Tensor
    k: Tensor
    q_grad: Tensor
    k_grad: Tensor
    lowered: pe.Lowered

    @property
    def angle(self) -> Tensor:
        """(length, dim / 2), as peers make their tables from it."""
        (term,) = self.lowered.terms
        assert isinstance(term, Rotate)
        return term.q_angle[0, 0]


def multiply(at: Turned) -> Call:
    def call() -> None:
        at.q.mul_(1.0)
        at.k.mul_(1.0)

    return call


def multiply_twice(at: Turned) -> Call:
    once = multiply(at)

    def call() -> None:
        once()
        once()

    return call


def clone(at: Turned) -> Call:
    return lambda: (at.q.clone(), at.k.clone())


def ours_in_place(at: Turned) -> Call:
    return lambda: pe.rotate(at.q, at.k, at.lowered, inplace=True)


def ours(at: Turned) -> Call:
    return lambda: pe.rotate(at.q, at.k, at.lowered)


def transformers(at: Turned) -> Call:
    turn, cos, sin = _of_transformers(at)
    return lambda: turn(at.q, at.k, cos, sin)


def transformers_compiled(at: Turned) -> Call:
    turn, cos, sin = _of_transformers(at)
    compiled = torch.compile(turn)
    return lambda: compiled(at.q, at.k, cos, sin)


def x_transformers(at: Turned) -> Call:
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    # The model makes the angles once, and each layer their cos and sin.
    freqs, _ = RotaryEmbedding(at.setting.dim, base=BASE).forward_from_seq_len(at.setting.length)
    return lambda: (apply_rotary_pos_emb(at.q, freqs), apply_rotary_pos_emb(at.k, freqs))


def rotary_embedding_torch(at: Turned) -> Call:
    from rotary_embedding_torch import RotaryEmbedding

    length = at.setting.length
    rotary = RotaryEmbedding(at.setting.dim, theta=BASE, cache_max_seq_len=length)
    turn = rotary.rotate_queries_or_keys
    return lambda: (turn(at.q), turn(at.k))


def complex_multiply(at: Turned) -> Call:
    """As Llama's first code did it, in torch alone."""
    waves = torch.polar(torch.ones_like(at.angle), at.angle).to(torch.complex64)

    def turn(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * waves).flatten(-2).type_as(x)

    return lambda: (turn(at.q), turn(at.k))


def trained(make: Callable[[Turned], Call]) -> Callable[[Turned], Call]:
    """The same with its backward, on queries and keys that need gradients."""

    def trained_call(at: Turned) -> Call:
        q, k = at.q.detach().requires_grad_(), at.k.detach().requires_grad_()
        forward: Any = make(replace(at, q=q, k=k))
        return lambda: torch.autograd.grad(forward(), (q, k), (at.q_grad, at.k_grad))

    return trained_call


def ours_in_place_trained(at: Turned) -> Call:
    """Between a layer whose results are turned in place, and one whose gradients nobody else holds.

    So it is between the projections and attention of a model.
    """
    leaf = torch.zeros((), requires_grad=True)
    # Copies, which nobody else holds: only those may the backward overwrite.
    spare = [at.q_grad.clone(), at.k_grad.clone()]

    def call() -> None:
        q, k = _Source.apply(leaf, [at.q, at.k], spare)
        turned = pe.rotate(q, k, at.lowered, inplace=True)
        _Sink.apply(spare, *turned).backward()

    return call


class _Source(torch.autograd.Function):
    """Tensors that stand for results of a layer; what arrives as their gradients is spare again."""

    @staticmethod
    def forward(ctx: Any, leaf: Tensor, x: list[Tensor], spare: list[Tensor]) -> tuple[Tensor, ...]:
        ctx.spare = spare
        return tuple(one.data for one in x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, None]:
        ctx.spare[:] = grads
        return None, None, None


class _Sink(torch.autograd.Function):
    """A loss whose gradients are there already."""

    @staticmethod
    def forward(ctx: Any, spare: list[Tensor], *x: Tensor) -> Tensor:
        ctx.spare = spare
        return x[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # Popped, for a gradient that another holds may not be overwritten.
        second, first = ctx.spare.pop(), ctx.spare.pop()
        return None, first, second


def _of_transformers(at: Turned) -> tuple[Callable[..., Any], Tensor, Tensor]:
    """Its function for the layout; cos and sin are in the activations' dtype, as in models."""
    if at.setting.layout == "half":
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

        angle = torch.cat((at.angle, at.angle), dim=-1)
    else:
        from transformers.models.cohere.modeling_cohere import apply_rotary_pos_emb

        angle = at.angle.repeat_interleave(2, dim=-1)
    cos, sin = (wave[None].to(at.q.dtype) for wave in (angle.cos(), angle.sin()))
    return apply_rotary_pos_emb, cos, sin


Makers = dict[str, Callable[[Turned], Call]]


def peers(layout: Layout, *, compiled: bool = False) -> Makers:
    """The implementations that turn this layout."""
    found: Makers = {"transformers": transformers}
    if compiled:
        found["transformers compiled"] = transformers_compiled
    if layout == "interleaved":
        found["x-transformers"] = x_transformers
        found["rotary-embedding-torch"] = rotary_embedding_torch
        found["complex multiply"] = complex_multiply
    return found


def cases() -> Iterator[Case]:
    """Rows one to five of the figures to reach, and growth with the length."""
    for layout in LAYOUTS:
        for dtype in DTYPES:
            yield from _one_layout(layout, dtype)
    for length in GROWTH:
        setting = Turning(1, 8, length, 128, "float32", "half")
        contestants = {
            IN_PLACE: multiply,
            "posenc in place": ours_in_place,
            "posenc": ours,
            COPIED: clone,
            **peers("half"),
        }
        name = f"rotate as the length grows, {setting}"
        yield Case(name, "rotary", setting, contestants, IN_PLACE, rounds=(5, 20),
                   curve="rotary", at=length)  # fmt: skip


def _one_layout(layout: Layout, dtype: str) -> Iterator[Case]:
    line = f"{layout}, {dtype}"
    large = Turning(1, 32, 2048, 128, dtype, layout)
    cached = Turning(4, 8, 512, 64, dtype, layout)
    token = Turning(1, 32, 1, 128, dtype, layout)
    in_place: Makers = {IN_PLACE: multiply, "posenc in place": ours_in_place}
    copied: Makers = {COPIED: clone, "posenc": ours}
    twice: Makers = {
        TWICE: multiply_twice,
        "posenc in place": ours_in_place_trained,
        "posenc": trained(ours),
    }
    found, widest = peers(layout), peers(layout, compiled=True)
    learning = {name: trained(make) for name, make in found.items()}

    def case(what: str, at: Turning, runs: Makers, floor: str, goal: Goal) -> Case:
        # Compiling takes longer than a whole smoke run may.
        quick = "transformers compiled" not in runs
        return Case(f"{what}, {at}", "rotary", at, runs, floor, goals=(goal,), in_quick=quick)

    goal = Goal("rotate q, k (1, 32, 2048, 128) in place", line, "posenc in place", IN_PLACE, 1.3)
    yield case("rotate in place", large, in_place | widest, IN_PLACE, goal)
    goal = Goal("rotate q, k (1, 32, 2048, 128) out of place", line, "posenc", COPIED, 1.2)
    yield case("rotate", large, copied | widest, COPIED, goal)
    goal = Goal("rotate q, k (4, 8, 512, 64), in cache", line, "posenc in place", IN_PLACE, 2.0)
    yield case("rotate in place", cached, in_place | found, IN_PLACE, goal)
    goal = Goal("rotate, forward and backward, per pass", line, "posenc in place", TWICE, 1.4)
    yield case("rotate forward and backward", large, twice | learning, TWICE, goal)
    goal = Goal("rotate one token (1, 32, 1, 128)", line, "posenc", "transformers", 0.5)
    yield case("rotate one token", token, in_place | {"posenc": ours} | found, IN_PLACE, goal)
