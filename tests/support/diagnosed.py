"""Implementations that are wrong on purpose, and what diagnose is given of them."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

import posenc as pe

B, H, G, T, D = 2, 6, 3, 11, 20


DTYPES = [torch.float32, torch.bfloat16]


def raw(dtype: torch.dtype = torch.float32, length: int = T) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    shapes = [(B, H, length, D), (B, G, length, D), (B, G, length, D)]
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


@dataclass(frozen=True)
class Wrong:
    """A rotation written out by itself, with one thing after another to get wrong."""

    base: float = 10_000.0
    layout: str = "half"
    width: int = D
    counted: int | None = None
    start: int = 0
    sign: tuple[float, float] = (1.0, 1.0)
    first: int | Tensor = 0
    factor: float = 1.0
    minus: bool = True
    tables: str | None = None
    position_dtype: torch.dtype = torch.float64
    frequency_dtype: torch.dtype = torch.float64
    angle_dtype: torch.dtype = torch.float64
    table_dtype: torch.dtype = torch.float64

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        turned = zip((q, k), self.sign, strict=True)
        return tuple(self.turn(x, sign).to(x.dtype) for x, sign in turned)

    def turn(self, x: Tensor, sign: float) -> Tensor:
        x, pairs = x.double(), self.width // 2
        at = (torch.arange(x.shape[-2]) + self.first).to(self.position_dtype).double() * self.factor
        exponent = torch.arange(pairs).double() / (self.counted or self.width) * 2
        theta = (self.base**-exponent).to(self.frequency_dtype).double()
        angle = (sign * at[..., None] * theta).to(self.angle_dtype).double()
        cos, sin = (wave.to(self.table_dtype).double() for wave in (angle.cos(), angle.sin()))
        if cos.ndim == 3:
            cos, sin = cos[:, None], sin[:, None]
        half, interleaved = (
            torch.arange(2 * pairs).view(2, -1).T,
            torch.arange(2 * pairs).view(-1, 2),
        )
        pair_of = half if self.layout == "half" else interleaved
        pair_of = pair_of + self.start
        cos_of, sin_of = torch.ones(x.shape), torch.zeros(x.shape)
        cos_of, sin_of = cos_of.double(), sin_of.double()
        laid_out = {"half": half, "interleaved": interleaved, None: pair_of - self.start}
        for wave, full in ((cos, cos_of), (sin, sin_of)):
            for side in range(2):
                full[..., laid_out[self.tables][:, side] + self.start] = wave.expand(
                    *x.shape[:-1], -1
                )
        partner = torch.zeros_like(x)
        partner[..., pair_of[:, 0]] = x[..., pair_of[:, 1]] * (-1 if self.minus else 1)
        partner[..., pair_of[:, 1]] = x[..., pair_of[:, 0]]
        return x * cos_of + partner * sin_of


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float = D**-0.5,
    bias: Tensor | float = 0.0,
    before: bool = False,
    diagonal: int | None = 0,
    tiled: bool = False,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """Scores and outputs by the plain formula, each step of which can be gone wrong at."""
    q, k, v = (x.double() for x in (q, k, v))
    share = q.shape[1] // k.shape[1]
    if tiled:
        k, v = k.repeat(1, share, 1, 1), v.repeat(1, share, 1, 1)
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    content = q @ k.mT
    s = (content + bias) * scale if before else content * scale + bias
    if diagonal is not None:
        hidden = torch.ones(q.shape[-2], k.shape[-2]).tril(diagonal) == 0
        s = s.masked_fill(hidden, -torch.inf)
    p = s.softmax(-1).nan_to_num(0.0)
    return s.to(dtype), (p @ v).to(dtype)


def both(encoding: object, q: Tensor, k: Tensor, v: Tensor, **options: object) -> tuple:
    return pe.scores(q, k, encoding, **options), pe.attend(q, k, v, encoding, **options)


def without(positions: pe.Positions, name: str) -> pe.Positions:
    """The same positions where neither side tells of this."""
    sides = (positions.queries, positions.keys)
    queries, keys = (replace(side, **{name: None}) for side in sides)
    return replace(positions, queries=queries, keys=keys)


def alibi_bias(slopes: list[float], future: float = 1.0) -> Tensor:
    step = torch.arange(T)[None] - torch.arange(T)[:, None]
    distance = torch.where(step > 0, future * step, -step).double()
    return -torch.tensor(slopes, dtype=torch.float64)[:, None, None] * distance


SLOPES = pe.ALiBi(H).slope_values()


def like(t5: pe.T5Bias, **settings: object) -> pe.T5Bias:
    made = pe.T5Bias(**t5.settings() | settings)
    made.load_state_dict(t5.state_dict())
    return made


def elsewhere(positions: pe.Positions, q: Tensor, k: Tensor) -> pe.Positions:
    queries, keys = (
        replace(side, position=at) for side, at in ((positions.queries, q), (positions.keys, k))
    )
    return replace(positions, queries=queries, keys=keys)


def converted(q: Tensor, k: Tensor, old: str, new: str) -> tuple[Tensor, Tensor]:
    """q and k of projections whose rows were converted from one layout to the other."""
    return tuple(pe.convert_layout(x, old, new, head_dim=D, dim=-1) for x in (q, k))
