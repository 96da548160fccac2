"""A tensor of queries or keys, from one layout of rotary pairs to the other."""

import torch
from jaxtyping import Shaped
from torch import Tensor

from posenc.conversion.pairs import Change, FusedHeads
from posenc.errors import SettingError, ShapeError, is_whole
from posenc.terms import Layout


def convert_layout(
    weight: Shaped[Tensor, "*shape"],
    source: Layout,
    target: Layout,
    *,
    head_dim: int,
    rotary_dim: int | None = None,
    start: int = 0,
    fused: FusedHeads | None = None,
    dim: int = 0,
) -> Shaped[Tensor, "*shape"]:
    """`weight` with the dimensions of each head reordered from layout `source` to `target`.

    Converted so, the projections of queries and of keys give the same scores under
    Rotary(layout=target) as they gave under Rotary(layout=source). With r = rotary_dim / 2 and
    i < r, from half to interleaved, along a head and from its dimension `start` on:

        new[2i], new[2i + 1] = old[i], old[r + i]

    and the inverse from interleaved to half. Convert queries and keys alike, and neither values
    nor the output projection. Both take the same head_dim, so that grouped-query keys need no
    number of heads.

    weight: any shape and dtype; dimension `dim` runs over heads of head_dim. Weights of torch's
    Linear (out, in), biases, and the factor B of LoRA (out, rank): dim=0; kernels stored (in, out)
    and cached q, k (b, h, t, d): dim=-1. The factor A of LoRA stays as it is. Norms of q and k
    (head_dim,) are converted as well.
    rotary_dim, start: which dimensions of a head rotate; all of them unless given. Partial rotary
    (Rotary(rotary_dim=...)) needs rotary_dim; proportional rotary (scaling=Proportional(...)) pairs
    over the whole head and needs none; MLA rotates trailing dimensions, as with
    rotary_dim=64, start=-64.
    fused: the heads along `dim` where queries, keys and values share one matrix.

    Example: `convert_layout(layer.q_proj.weight, "interleaved", "half", head_dim=64)`.

    Raises ShapeError for a dimension that is not made of such heads, SettingError for settings that
    no head can have.

    Source: RoFormer, arXiv:2104.09864, equation 15 (interleaved); GPT-NeoX's rotate_half (half).
    """
    change = Change(source, target, head_dim, rotary_dim, start)
    if not is_whole(dim):
        raise SettingError(
            f"convert_layout(dim={dim!r}): dim must be a whole number (int), the dimension that "
            f"runs over heads, of a tensor of shape {tuple(weight.shape)}"
        )
    if not -weight.dim() <= dim < weight.dim():
        raise ShapeError(f"convert_layout(dim={dim}): the tensor has shape {tuple(weight.shape)}")
    entries = weight.shape[dim]
    misfit = change.misfit(entries, fused)
    if misfit is not None:
        raise ShapeError(
            f"convert_layout of shape {tuple(weight.shape)}: dimension {dim} has {entries} "
            f"entries, which {misfit}"
        )
    rotated = fused.rotated if fused is not None else (True,) * (entries // head_dim)
    rows = torch.tensor(change.rows(rotated), dtype=torch.int64, device=weight.device)
    return weight.index_select(dim, rows)
