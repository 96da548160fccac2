"""What `lower` computes of one token's terms, as bare torch calls in the fewest operators.

For the encodings whose own arithmetic is most of it: nothing is asked, checked or wrapped here.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

import posenc as pe

Tables = Callable[[], tuple[Tensor, ...]]


def xpos(encoding: pe.XPos, keys: int) -> Tables:
    """cos and sin of the last token, and by what it fades and what it meets grows."""
    position, gamma = torch.tensor(float(keys - 1), dtype=torch.float64), encoding.gamma

    def tables() -> tuple[Tensor, ...]:
        share = torch.arange(0, encoding.dim, 2, dtype=torch.float64).div_(encoding.dim)
        angle = torch.pow(encoding.base, -share).mul_(position)
        fading = share.add_(gamma).div_(1 + gamma).log_().div_(encoding.scale_base).mul_(position)
        return angle.cos().float(), angle.sin().float(), fading, -fading

    return tables


def t5(encoding: pe.T5Bias, keys: int) -> Tables:
    exact, farthest = encoding.buckets // 2, encoding.max_distance
    weight = encoding.weight.detach()

    def tables() -> tuple[Tensor, ...]:
        behind = torch.arange(-farthest, 1)
        grown = behind.float().div_(-exact).log_().div_(math.log(farthest / exact))
        beyond = grown.mul_(encoding.buckets - exact).clamp_(0, encoding.buckets - 1 - exact)
        bucket = beyond.long().sub_(behind.clamp_(min=-exact))
        return (weight.T.index_select(1, bucket),)

    return tables


def kerple(encoding: pe.KERPLE, keys: int) -> Tables:
    log_r1, raw_r2 = (x.detach()[:, None] for x in (encoding.log_r1, encoding.raw_r2))

    def tables() -> tuple[Tensor, ...]:
        away = torch.arange(keys - 1, -1, -1, dtype=torch.float64)
        grown = raw_r2.double().exp_().mul(away).log1p_()
        return (grown.mul_(log_r1.double().exp_().neg_()).float(),)

    return tables


def sandwich(encoding: pe.Sandwich, keys: int) -> Tables:
    heads, half = encoding.heads or 1, encoding.dim // 2

    def tables() -> tuple[Tensor, ...]:
        away = torch.arange(keys - 1, -1, -1, dtype=torch.float64)
        minus_2i = torch.arange(0, -encoding.dim, -2, dtype=torch.float64)
        product = away.outer(torch.pow(encoding.base, minus_2i.div_(encoding.dim))).cos_().sum(-1)
        eighths = torch.arange(8, 8 * heads + 8, 8, dtype=torch.float64).div_(heads).unsqueeze(1)
        return (product.sub_(half).div(eighths).float(),)

    return tables


# By the name of the encoding in the cases.
BARE: dict[str, Callable[..., Tables]] = {
    "xpos": xpos,
    "t5": t5,
    "kerple": kerple,
    "sandwich": sandwich,
}
