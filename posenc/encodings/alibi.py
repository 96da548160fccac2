import math
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.errors import (
    PositionsError,
    SettingError,
    given,
    is_finite,
    listed,
    one_of,
    positive,
    whole,
)
from posenc.positions import Positions
from posenc.terms import DenseBias, Slope, Term


class ALiBi(Encoding):
    """Each head subtracts its own multiple of the distance from the score.

        score[i, j] = scale * q[i] . k[j] - slope[h] * |i - j|

    slopes "press" are those of the authors' code: with n heads 2**(-8h/n), h = 1..n, where n is a
    power of two, else those of the power below followed by every second one of the power above;
    "geometric" is the paper's sentence, 2**(-8h/n) for any n; or give one number per head.
    future multiplies the slope for keys ahead of the query; None means the same on both sides.
    learned=True trains the logarithm of every slope, those ahead apart where future is given, and
    keeps it in float32. inside=True puts the bias inside the scale, as Falcon's checkpoints have
    it. With axes > 1 and positions (b, t, axes) the distance is Euclidean and the bias a
    (b, h, tq, tk) tensor: quadratic memory. Raises SettingError for numbers that are not positive,
    slopes that are not one per head, and several axes with future or inside; PositionsError for
    positions of another number of axes; counted ones, (t,) and (b, t), are of one.

    Source: Press et al. 2022, arXiv:2108.12409, section 3 and the authors' code; slopes of two
    sides: issue 5 of that code; axes: CROMA, Fuller et al. 2023, arXiv:2311.00566.
    """

    name = "alibi"
    family = "bias"
    paper = "arXiv:2108.12409"
    sizes = ("heads",)
    tags = Tags(translation_invariant=True, norm_preserving=True)

    def __init__(
        self,
        heads: int,
        slopes: Literal["press", "geometric"] | Sequence[float] = "press",
        future: float | None = None,
        learned: bool = False,
        inside: bool = False,
        axes: int = 1,
    ) -> None:
        super().__init__()
        whole("ALiBi", heads=heads, axes=axes)
        positive("ALiBi", **given(future=future))
        one_of("ALiBi", (False, True), learned=learned, inside=inside)
        if axes > 1 and (future is not None or inside):
            raise SettingError(
                f"ALiBi(axes={axes}, future={future}, inside={inside}): with several axes no key "
                "is ahead, and the bias stands outside the scale; leave future and inside out"
            )
        self.heads, self.axes, self.future = heads, axes, future
        self.learned, self.inside = learned, inside
        self.slopes = slopes if isinstance(slopes, str) else listed("ALiBi", slopes=slopes)
        if isinstance(self.slopes, str):
            known = self.slopes in ("press", "geometric")
        else:
            known = len(self.slopes) == heads and all(
                is_finite(slope) and slope > 0 for slope in self.slopes
            )
        if not known:
            raise SettingError(
                f"ALiBi(slopes={slopes!r}): slopes are 'press' or 'geometric', or {heads} numbers "
                "greater than 0, one per head"
            )
        self.log_slope = nn.Parameter(self._initial(torch.float32).log()) if learned else None
        self.keep_float32 = ("log_slope",) if learned else ()

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield from (cls(12), cls(4, future=2.0, learned=True), cls(4, axes=2))
        yield cls(6, slopes="geometric", inside=True)

    def slope_values(self) -> list[float]:
        """The slope of each head towards the past, before any training, in score per token."""
        if not isinstance(self.slopes, str):
            return list(self.slopes)
        assert self.heads is not None
        below = self.heads
        if self.slopes == "press":
            below = 1 << self.heads.bit_length() - 1
        first = [2.0 ** (-8 * h / below) for h in range(1, below + 1)]
        above = [2.0 ** (-4 * h / below) for h in range(1, 2 * below + 1, 2)]
        return first + above[: self.heads - below]

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        device = positions.device
        slopes = self._initial(dtype, device) if self.log_slope is None else self.log_slope.exp()
        past, future = slopes[0], None if self.future is None else slopes[1]
        if positions.queries.position.ndim < 3 or self.axes == 1:
            return (Slope(past, future, self.inside),)
        if positions.queries.position.shape[-1] != self.axes:
            raise PositionsError(
                f"{self!r} reads {self.axes} coordinates per token, but the positions have shape "
                f"{tuple(positions.queries.position.shape)}: give (b, t, {self.axes})"
            )
        q, k = positions.queries.position.double(), positions.keys.position.double()
        steps = k[:, None] - q[:, :, None]
        return (DenseBias(-past[:, None, None] * steps.norm(dim=-1).to(past.dtype)[:, None]),)

    def _initial(
        self, dtype: torch.dtype, device: torch.device | None = None
    ) -> Float[Tensor, "sides h"]:
        past = torch.tensor([self.slope_values()], dtype=dtype, device=device)
        return past if self.future is None else torch.cat([past, past * self.future])

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        def press(n: int) -> list[float]:
            below = 2 ** math.floor(math.log2(n))
            slopes = [2 ** (-8 * (h + 1) / below) for h in range(below)]
            return slopes if below == n else slopes + press(2 * below)[0::2][: n - below]

        heads, slopes = q.shape[1], self.slopes
        if isinstance(slopes, str):
            geometric = [2 ** (-8 * (h + 1) / heads) for h in range(heads)]
            slopes = press(heads) if slopes == "press" else geometric
        bias = []
        for h, past in enumerate(slopes):
            ahead = past * (1.0 if self.future is None else self.future)
            if self.log_slope is not None:
                past, ahead = self.log_slope[0, h].exp(), self.log_slope[-1, h].exp()
            if at.q.ndim == 3:
                bias.append(-past * (at.k[:, None] - at.q[:, :, None]).square().sum(-1).sqrt())
            else:
                step = at.distance()[:, 0]
                bias.append(torch.where(step > 0, -ahead * step, past * step))
        content, added = torch.einsum("bhid,bhjd->bhij", q, k), torch.stack(bias, dim=1)
        return at.scale * (content + added) if self.inside else at.scale * content + added
