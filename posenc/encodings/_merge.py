"""How a table of positions joins the embeddings."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import SettingError

Merge = Literal["add", "multiply", "concat"]


def check_merge(owner: str, merge: str) -> None:
    if merge not in ("add", "multiply", "concat"):
        raise SettingError(f"{owner}(merge={merge!r}): merge is 'add', 'multiply' or 'concat'")


def merged(
    x: Float[Tensor, "b t c"], p: Float[Tensor, "#b t e"], merge: Merge
) -> Float[Tensor, "b t c_out"]:
    """x + p, x * (1 + p), or x and p side by side, in x's dtype.

    Source of x * (1 + p): Su, https://kexue.fm/archives/8130, and bert4keras.
    """
    if merge == "add":
        out = x + p
    elif merge == "multiply":
        out = x * (1 + p)
    else:
        out = torch.cat((x, p.expand(*x.shape[:-1], -1).to(x.dtype)), dim=-1)
    return out.to(x.dtype)
