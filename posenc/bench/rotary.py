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
# What is rotated forward and backward: twice of the floor is two tensors, which caches hold longer.
FOUR = "multiply in place, four tensors"
BASE = 10_000.0
DTYPES = ("float32", "bfloat16")
LAYOUTS: tuple[Layout, ...] = ("half", "interleaved")
GROWTH_ROW = "rotate in place as the length grows, 8 heads of 128, float32"
GROWTH = (1024, 4096, 16_384, 65_536)


@dataclass(frozen=True)
class RotationSetting:
    """Queries and keys, each (batch, heads, length, dim)."""

    batch: int
    heads: int
    length: int
    dim: int
    dtype: str
    layout: Layout

    def inputs(self) -> "RotationInputs":
        torch.manual_seed(0)
        dtype = getattr(torch, self.dtype)
        shape = (self.batch, self.heads, self.length, self.dim)
        q, k, q_grad, k_grad = (torch.randn(shape).to(dtype) for _ in range(4))
        rotary = pe.Rotary(self.dim, BASE, layout=self.layout)
        return RotationInputs(self, q, k, q_grad, k_grad, pe.lower(rotary, self.length))

    def small(self) -> Self:
        return replace(self, heads=min(self.heads, 4), length=min(self.length, 32))

    def __str__(self) -> str:
        shape = (self.batch, self.heads, self.length, self.dim)
        return f"{shape}, {self.layout}, {self.dtype}"


@dataclass(frozen=True)
class RotationInputs:
    setting: RotationSetting
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


def multiply(inputs: RotationInputs) -> Call:
    def call() -> None:
        inputs.q.mul_(1.0)
        inputs.k.mul_(1.0)

    return call


def multiply_twice(inputs: RotationInputs) -> Call:
    once = multiply(inputs)

    def call() -> None:
        once()
        once()

    return call


def multiply_four(inputs: RotationInputs) -> Call:
    once = multiply(inputs)

    def call() -> None:
        once()
        inputs.q_grad.mul_(1.0)
        inputs.k_grad.mul_(1.0)

    return call


def clone(inputs: RotationInputs) -> Call:
    return lambda: (inputs.q.clone(), inputs.k.clone())


def ours_in_place(inputs: RotationInputs) -> Call:
    return lambda: pe.rotate(inputs.q, inputs.k, inputs.lowered, inplace=True)


def ours(inputs: RotationInputs) -> Call:
    return lambda: pe.rotate(inputs.q, inputs.k, inputs.lowered)


def transformers(inputs: RotationInputs) -> Call:
    turn, cos, sin = _of_transformers(inputs)
    return lambda: turn(inputs.q, inputs.k, cos, sin)


def transformers_compiled(inputs: RotationInputs) -> Call:
    turn, cos, sin = _of_transformers(inputs)
    compiled = torch.compile(turn)
    return lambda: compiled(inputs.q, inputs.k, cos, sin)


def x_transformers(inputs: RotationInputs) -> Call:
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    # The model makes the angles once, and each layer their cos and sin.
    freqs, _ = RotaryEmbedding(inputs.setting.dim, base=BASE).forward_from_seq_len(
        inputs.setting.length
    )
    return lambda: (apply_rotary_pos_emb(inputs.q, freqs), apply_rotary_pos_emb(inputs.k, freqs))


def rotary_embedding_torch(inputs: RotationInputs) -> Call:
    from rotary_embedding_torch import RotaryEmbedding

    length = inputs.setting.length
    rotary = RotaryEmbedding(inputs.setting.dim, theta=BASE, cache_max_seq_len=length)
    turn = rotary.rotate_queries_or_keys
    return lambda: (turn(inputs.q), turn(inputs.k))


def complex_multiply(inputs: RotationInputs) -> Call:
    """As Llama's first code did it, in torch alone."""
    waves = torch.polar(torch.ones_like(inputs.angle), inputs.angle).to(torch.complex64)

    def turn(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * waves).flatten(-2).type_as(x)

    return lambda: (turn(inputs.q), turn(inputs.k))


def trained(make: Callable[[RotationInputs], Call]) -> Callable[[RotationInputs], Call]:
    """The same with its backward, on queries and keys that need gradients."""

    def trained_call(inputs: RotationInputs) -> Call:
        q, k = inputs.q.detach().requires_grad_(), inputs.k.detach().requires_grad_()
        forward: Any = make(replace(inputs, q=q, k=k))
        return lambda: torch.autograd.grad(forward(), (q, k), (inputs.q_grad, inputs.k_grad))

    return trained_call


def ours_in_place_trained(inputs: RotationInputs) -> Call:
    """Between a layer whose results are turned in place, and one whose gradients nobody else holds.

    So it is between the projections and attention of a model.
    """
    leaf = torch.zeros((), requires_grad=True)
    # Copies, which nobody else holds: only those may the backward overwrite.
    spare = [inputs.q_grad.clone(), inputs.k_grad.clone()]

    def call() -> None:
        q, k = _Source.apply(leaf, [inputs.q, inputs.k], spare)
        turned = pe.rotate(q, k, inputs.lowered, inplace=True)
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


def _of_transformers(inputs: RotationInputs) -> tuple[Callable[..., Any], Tensor, Tensor]:
    """Its function for the layout; cos and sin are in the activations' dtype, as in models."""
    if inputs.setting.layout == "half":
        from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

        angle = torch.cat((inputs.angle, inputs.angle), dim=-1)
    else:
        from transformers.models.cohere.modeling_cohere import apply_rotary_pos_emb

        angle = inputs.angle.repeat_interleave(2, dim=-1)
    cos, sin = (wave[None].to(inputs.q.dtype) for wave in (angle.cos(), angle.sin()))
    return apply_rotary_pos_emb, cos, sin


Makers = dict[str, Callable[[RotationInputs], Call]]


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
    """Each layout and dtype at several sizes, and growth with the length."""
    for layout in LAYOUTS:
        for dtype in DTYPES:
            yield from _one_layout(layout, dtype)
    for length in GROWTH:
        setting = RotationSetting(1, 8, length, 128, "float32", "half")
        contestants = {
            IN_PLACE: multiply,
            "posenc in place": ours_in_place,
            "posenc": ours,
            COPIED: clone,
            **peers("half"),
        }
        name = f"rotate as the length grows, {setting}"
        # As much data as in the case that fits the cache, or more.
        line, reach = ("L = 1024, in cache", 2.0) if length <= 1024 else ("L = 4096 to 65536", 1.3)
        same = tuple(peers("half"))
        goal = Goal(GROWTH_ROW, line, "posenc in place", IN_PLACE, reach, same)
        yield Case(name, "rotary", setting, contestants, IN_PLACE, goals=(goal,), rounds=(5, 20),
                   curve="rotary", tokens=length)  # fmt: skip


def _one_layout(layout: Layout, dtype: str) -> Iterator[Case]:
    line = f"{layout}, {dtype}"
    large = RotationSetting(1, 32, 2048, 128, dtype, layout)
    cached = RotationSetting(4, 8, 512, 64, dtype, layout)
    token = RotationSetting(1, 32, 1, 128, dtype, layout)
    in_place: Makers = {IN_PLACE: multiply, "posenc in place": ours_in_place}
    copied: Makers = {COPIED: clone, "posenc": ours}
    twice: Makers = {
        TWICE: multiply_twice,
        FOUR: multiply_four,
        "posenc in place": ours_in_place_trained,
        "posenc": trained(ours),
    }
    found, widest = peers(layout), peers(layout, compiled=True)
    learning = {name: trained(make) for name, make in found.items()}

    def case(what: str, setting: RotationSetting, runs: Makers, floor: str, *goals: Goal) -> Case:
        # Compiling takes longer than a whole smoke run may.
        quick = "transformers compiled" not in runs
        return Case(
            f"{what}, {setting}", "rotary", setting, runs, floor, goals=goals, in_quick=quick
        )

    rows = (
        ("rotate q, k (1, 32, 2048, 128) in place", "posenc in place", IN_PLACE, 1.3),
        ("rotate q, k (1, 32, 2048, 128) out of place", "posenc", COPIED, 1.2),
    )
    goals = (Goal(row, line, who, base, reach, tuple(widest)) for row, who, base, reach in rows)
    yield case("rotate", large, in_place | copied | widest, IN_PLACE, *goals)
    goal = Goal("rotate q, k (4, 8, 512, 64), in cache", line, "posenc in place", IN_PLACE, 2.0)
    yield case("rotate in place", cached, in_place | found, IN_PLACE, goal)
    goal = Goal(
        "rotate, forward and backward, per pass", line, "posenc in place", TWICE, 1.3, least=FOUR
    )
    yield case("rotate forward and backward", large, twice | learning, TWICE, goal)
    goal = Goal("rotate one token (1, 32, 1, 128)", line, "posenc", "transformers", 0.5)
    yield case("rotate one token", token, in_place | {"posenc": ours} | found, IN_PLACE, goal)
