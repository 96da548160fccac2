from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from posenc.encoding import Encoding, Pairs
from posenc.encodings._distance import DistanceBias, Distances
from posenc.errors import one_of


class KERPLE(DistanceBias):
    """Each head subtracts a trained kernel of the distance from the score.

        log:    score[i, j] = scale * q[i] . k[j] - r1[h] * log(1 + r2[h] * |i - j|),  r1, r2 > 0
        power:  score[i, j] = scale * q[i] . k[j] - r1[h] * |i - j|**r2[h],   0 < r1, 0 < r2 < 2

    The parameters are log(r1) and log(r2), for power the logit of r2 / 2, so that any value is
    legal; they stay float32. As in the authors' code r1 starts in U(0, 2) and r2 in U(0, 1) for
    log, r1 in U(0, 1) and r2 in U(0, 2) for power, none below 0.01. Whole positions are of
    known extent; fractional ones, such as time stamps, cost a number per pair. Raises SettingError
    for heads < 1 and another kind.

    Source: Chi et al. 2022, arXiv:2205.09921, section 4, and the authors' code.
    """

    name = "kerple"
    paper = "arXiv:2205.09921"
    keep_float32 = ("log_r1", "raw_r2")

    def __init__(self, heads: int, kind: Literal["log", "power"] = "log") -> None:
        super().__init__(heads)
        one_of("KERPLE", ("log", "power"), kind=kind)
        self.kind = kind
        p, a = torch.rand(heads) * 2, torch.rand(heads)
        r1, r2 = (p, a) if kind == "log" else (a, p)
        r1, r2 = r1.clamp(min=0.01), r2.clamp(min=0.01, max=1.99)
        self.log_r1 = nn.Parameter(r1.log())
        self.raw_r2 = nn.Parameter(r2.log() if kind == "log" else torch.logit(r2 / 2))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(12)
        yield cls(4, kind="power")

    def kernel(self, distance: Float[Tensor, "n"]) -> Float[Tensor, "h n"]:
        """What each head subtracts at distances >= 0, in float64."""
        r1, raw = self.log_r1.double().unsqueeze(1), self.raw_r2.double().unsqueeze(1)
        if self.kind == "log":
            return (raw.exp() * distance).log1p() * r1.exp()
        # 0**r2 is 0, but has no gradient in r2.
        grown = torch.where(distance > 0, distance, 1.0) ** (2 * raw.sigmoid())
        return r1.exp() * torch.where(distance > 0, grown, 0.0)

    def biases(self, distance: Distances, dtype: torch.dtype) -> Float[Tensor, "h n"]:
        # Never in half precision, where far distances are rounded together.
        wide = torch.promote_types(self.log_r1.dtype, dtype)
        return self.kernel(distance.abs().double()).to(wide).neg_()

    def reference_biases(self, at: Pairs) -> Float64[Tensor, "b h tq tk"]:
        away = at.distance().abs()
        r1, raw = self.log_r1.exp()[:, None, None], self.raw_r2[:, None, None]
        if self.kind == "log":
            return -r1 * torch.log(1 + raw.exp() * away)
        return -r1 * away ** (2 / (1 + torch.exp(-raw)))
