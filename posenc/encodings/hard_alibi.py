from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from posenc.encoding import Encoding, Pairs, Tags
from posenc.encodings._distance import DistanceBias, Distances
from posenc.errors import SettingError, listed, whole

# What joins a score in place of minus infinity: no softmax sees what is so far below its largest.
UNSEEN = -1e4


class HardALiBi(DistanceBias):
    """Some heads see the nearest tokens alone, the others all, and no head knows a position.

        score[i, j] = scale * q[i] . k[j] where |i - j| < window[h], else less by 1e4

    The paper subtracts infinity, its code the largest number of the dtype: a softmax gives 0 for
    each. `windows` say how many tokens the first heads see, a query's own included; later heads
    see all. As in the authors' code they are 1, 2, 3, ... for half of the heads where nothing else
    is given. Nothing is trained. Where positions have gaps, as time stamps do, a window is
    as long in time and holds what lies there; fractional ones cost a number per pair. Raises
    SettingError for heads < 1, windows < 1 and more windows than heads.

    Source: Jelassi et al. 2024, arXiv:2402.01032, and the authors' code (transformers_ssm_copy).
    """

    name = "hard_alibi"
    paper = "arXiv:2402.01032"
    # Beyond its widest window all distances are alike, however far positions reach.
    tags = Tags(translation_invariant=True, norm_preserving=True)

    def __init__(self, heads: int, windows: Sequence[int] | None = None) -> None:
        super().__init__(heads)
        windows = range(1, heads // 2 + 1) if windows is None else windows
        self.windows = listed("HardALiBi", windows=windows)
        for window in self.windows:
            whole("HardALiBi", windows=window)
        if len(self.windows) > heads:
            raise SettingError(
                f"HardALiBi(heads={heads}, windows={self.windows}): {len(self.windows)} windows, "
                "and each is of one head; give as many as heads or fewer"
            )
        widest = max(self.windows, default=0)
        self.reach = (widest, widest)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(12)
        yield cls(3, windows=(4, 2, 1))

    def biases(self, distance: Distances, dtype: torch.dtype) -> Float[Tensor, "h n"]:
        windows = torch.tensor(self.windows, device=distance.device)[:, None]
        values = torch.zeros(self.heads or 1, len(distance), dtype=dtype, device=distance.device)
        values[: len(windows)].masked_fill_(distance.abs() >= windows, UNSEEN)
        return values

    def reference_biases(self, at: Pairs) -> Float64[Tensor, "b h tq tk"]:
        away = at.distance().abs()[:, 0]
        seen = [away < window for window in self.windows]
        seen += [torch.ones_like(away, dtype=torch.bool)] * ((self.heads or 1) - len(seen))
        return torch.zeros((), dtype=torch.float64).where(torch.stack(seen, dim=1), UNSEEN)
