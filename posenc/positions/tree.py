"""The nodes of trees: coordinates that are the branches on the way to the root."""

from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import PositionsError, shown
from posenc.positions.from_mask import from_mask
from posenc.positions.tokens import Tokens, check_tensors, check_whole

P = TypeVar("P")
_CALL = "Positions.tree"


def tree(
    make: Callable[..., P],
    parents: Tensor,
    branches: Tensor | None = None,
    *,
    degree: int,
    depth: int,
    attention_mask: Tensor | None = None,
    causal: bool = False,
) -> P:
    """Nodes at the branches that lead up to the root, as coordinates (b, t, depth).

    position[i, 0] tells which child of its parent node i is, counted from 1, position[i, 1] which
    its parent is, and so on; 0 stands beyond the root. Of a node deeper than `depth` the branches
    next to the root are left out.

    parents         int64 (t,) or (b, t): the token that is each node's parent, -1 for a root
    branches        int64, of the same shape: which child of its parent a node is, from 0; None:
                    children are counted in the order of the tokens
    degree, depth   how many children a node may have, and how many branches are told
    attention_mask  (b, t), nonzero for nodes, where trees of a batch differ in size
    causal          a node sees those before it in the order of the tokens

    Example: `Positions.tree(torch.tensor([-1, 0, 0, 1]), degree=2, depth=3)`.

    Raises PositionsError for parents that are no tokens or padding, that go round in a circle, and
    for more children than `degree`.
    Source: Shiv and Quirk 2019, "Novel positional encodings to enable tree-based transformers".
    """
    valid, order = (None, None) if attention_mask is None else from_mask(attention_mask, _CALL)
    up, which = _checked(parents, branches, degree, depth, valid)
    rows, nodes = up.shape
    # One node more, beyond all roots and its own parent, from which no branch leads.
    beyond = torch.full((rows, 1), nodes, device=up.device)
    up = torch.cat((torch.where(up < 0, nodes, up), beyond), dim=1)
    which = torch.cat((which, beyond), dim=1)
    branch = torch.where(up < nodes, which + 1, 0)
    _check_rooted(up)
    at, path = torch.arange(nodes, device=up.device).expand(rows, -1), []
    for _ in range(depth):
        path.append(branch.gather(1, at))
        at = up.gather(1, at)
    tokens = Tokens(torch.stack(path, dim=-1), order, valid=valid)
    return make(tokens, tokens, causal, degree + 1)


def _checked(
    parents: Tensor, branches: Tensor | None, degree: int, depth: int, valid: Tensor | None
) -> tuple[Int[Tensor, "b t"], Int[Tensor, "b t"]]:
    """Parents, and which child each node is, from 0, by row; padding has no parent."""
    check_whole(_CALL, degree=degree, depth=depth)
    if degree < 1 or depth < 1:
        raise PositionsError(f"{_CALL}(degree={degree}, depth={depth}): both are at least 1")
    for name, given in (("parents", parents), ("branches", branches)):
        if given is None:
            continue
        if not isinstance(given, Tensor):
            raise PositionsError(f"{_CALL}({name}={shown(given)}): give a tensor")
        if given.dtype not in (torch.int32, torch.int64) or given.shape != parents.shape:
            raise PositionsError(
                f"{_CALL}({name}=...) has shape {tuple(given.shape)} and {given.dtype}: whole "
                "numbers (t,) or (b, t), one for each token, are needed"
            )
        check_tensors(_CALL, **{name: given})
    if parents.ndim not in (1, 2) or not parents.numel():
        raise PositionsError(f"{_CALL}: parents of shape {tuple(parents.shape)}: (t,) or (b, t)")
    up = parents.long().view(-1, parents.shape[-1])
    if valid is not None:
        if valid.shape != up.shape:
            raise PositionsError(
                f"{_CALL}: an attention_mask of shape {tuple(valid.shape)} beside parents of shape "
                f"{tuple(up.shape)}: give one entry for each token"
            )
        up = torch.where(valid, up, -1)
    for row, node in ((up < -1) | (up >= up.shape[1])).nonzero().tolist()[:1]:
        raise PositionsError(
            f"{_CALL}: the parent of node {node} of row {row} is {up[row, node].item()}: parents "
            f"are among the {up.shape[1]} tokens, 0 to {up.shape[1] - 1}, or -1 for a root"
        )
    if valid is not None:
        _check_padding(up, valid)
    which = _counted(up) if branches is None else branches.long().view(up.shape)
    for row, node in ((up >= 0) & ((which < 0) | (which >= degree))).nonzero().tolist()[:1]:
        child, most = int(which[row, node]), int(which[up >= 0].max())
        raise PositionsError(
            f"{_CALL}(degree={degree}): node {node} of row {row} is child {child} of its parent, "
            f"counted from 0: give degree >= {most + 1}, and branches from 0 on"
        )
    return up, which


def _counted(up: Int[Tensor, "b t"]) -> Int[Tensor, "b t"]:
    """Which child of its parent each node is, in the order of the tokens."""
    order = up.argsort(dim=1, stable=True)
    place = order.argsort(dim=1)
    return place - torch.searchsorted(up.gather(1, order), up)


def _check_padding(up: Int[Tensor, "b t"], valid: Tensor) -> None:
    inside = up >= 0
    for row, node in (inside & ~valid.gather(1, up.clamp(min=0))).nonzero().tolist()[:1]:
        raise PositionsError(
            f"{_CALL}: the parent of node {node} of row {row} is {up[row, node].item()}, which the "
            "attention_mask calls padding"
        )


def _check_rooted(up: Int[Tensor, "b n"]) -> None:
    """Every way up ends: as many steps as there are nodes lead beyond the roots."""
    ahead, beyond = up, up.shape[1] - 1
    for _ in range(beyond.bit_length()):
        ahead = ahead.gather(1, ahead)
    for row, node in (ahead != beyond).nonzero().tolist()[:1]:
        raise PositionsError(
            f"{_CALL}: from node {node} of row {row} parents go round in a circle: a tree has a "
            "root, whose parent is -1"
        )
