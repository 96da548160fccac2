"""What `lower` computes of one token's terms, as bare torch calls in the fewest operators.

For the encodings whose own arithmetic is most of it: nothing is asked, checked or wrapped here, and
what settings alone say is made before.
"""

from collections.abc import Callable

import torch
from torch import Tensor

import posenc as pe

Tables = Callable[[], tuple[Tensor, ...]]
# Factors that grow with position cancel in pairs only: no cache holds keys that they multiply.
RAW = "xpos, raw keys"


def xpos(encoding: pe.XPos, keys: int) -> Tables:
    """cos and sin of the last token and of all keys, which grow the farther they are behind it."""
    query = torch.tensor(float(keys - 1), dtype=torch.float64)
    cpu = torch.device("cpu")
    turning, fading = encoding.theta(cpu), encoding.fading(cpu)

    def tables() -> tuple[Tensor, ...]:
        angle, away = turning * query, torch.arange(keys, dtype=torch.float64).unsqueeze(1)
        angles, factor = away * turning, away.neg().add_(query).mul(fading).exp_()
        cos, sin = angles.cos().mul_(factor), angles.sin_().mul_(factor)
        return angle.cos().float(), angle.sin_().float(), cos.float(), sin.float()

    return tables


def kerple(encoding: pe.KERPLE, keys: int) -> Tables:
    log_r1, raw_r2 = (x.detach()[:, None] for x in (encoding.log_r1, encoding.raw_r2))

    def tables() -> tuple[Tensor, ...]:
        away = torch.arange(keys - 1, -1, -1, dtype=torch.float64)
        grown = raw_r2.double().exp_().mul(away).log1p_()
        return (grown.mul_(log_r1.double().exp_().neg_()).float(),)

    return tables


# By the name of the encoding in the cases.
BARE: dict[str, Callable[..., Tables]] = {RAW: xpos, "kerple": kerple}
