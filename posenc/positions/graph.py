"""The nodes of graphs: coordinates that their edges tell."""

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float64
from torch import Tensor

from posenc.errors import PositionsError, shown
from posenc.positions.drawing import uniform
from posenc.positions.from_mask import from_mask
from posenc.positions.tokens import Tokens, check_tensors, check_whole

P = TypeVar("P")
_CALL = "Positions.graph"


def graph(
    make: Callable[..., P],
    adjacency: Tensor,
    *,
    eigenvectors: int = 0,
    steps: int = 0,
    attention_mask: Tensor | None = None,
    flip: bool = False,
    generator: torch.Generator | None = None,
) -> P:
    """Nodes at what eigenvectors and random walks say of them, as coordinates (b, n, axes).

        L = I - D**-1/2 A D**-1/2,   L v[j] = lambda[j] v[j],   lambda[0] <= lambda[1] <= ...
        R = D**-1 A
        position[i] = v[1][i], ..., v[eigenvectors][i], R[i, i], (R**2)[i, i], ..., (R**steps)[i, i]

    A is the adjacency, D its diagonal of degrees: (R**s)[i, i] is the probability that a random
    walk from node i is back after s steps. v[0], whose eigenvalue is 0, is left out. Eigenvectors
    have length 1 and no sign: flip=True draws signs, in training, so that none is learned. Where an
    eigenvalue occurs twice or more, as in rings, grids and graphs of several parts, every basis of
    its space is as good, and which one comes out is chance, which signs do not undo; probabilities
    of return have no such choice. A graph with fewer nodes has zeros in place of what is missing.

    adjacency       (n, n) or (b, n, n): symmetric, weights >= 0 or bool
    eigenvectors, steps   how many coordinates of each kind, the eigenvectors first
    attention_mask  (b, n), nonzero for nodes, where graphs of a batch differ in size
    flip            each eigenvector of each graph gets a random sign
    generator       where signs come from: torch.Generator().manual_seed(seed)

    Example: `Positions.graph(adjacency, eigenvectors=8)`, read by `Coordinates(dim, axes=8)`.

    Raises PositionsError for an adjacency that is no symmetric matrix of finite numbers >= 0, for
    edges of padding, and for no coordinate.
    Source: Dwivedi and Bresson 2020, arXiv:2012.09699 (eigenvectors); Dwivedi et al. 2021,
    arXiv:2110.07875 (random walks).
    """
    check_whole(_CALL, eigenvectors=eigenvectors, steps=steps)
    if eigenvectors < 0 or steps < 0 or eigenvectors + steps < 1:
        raise PositionsError(
            f"{_CALL}(eigenvectors={eigenvectors}, steps={steps}): a node needs one coordinate at "
            "least: give how many of each kind, none below 0"
        )
    valid, order = (None, None) if attention_mask is None else from_mask(attention_mask, _CALL)
    edges = _checked(adjacency, valid)
    rows, nodes = edges.shape[:2]
    real = torch.ones(rows, nodes, dtype=torch.bool, device=edges.device)
    real = real if valid is None else valid
    parts = [returns(edges, steps)] if steps else []
    if eigenvectors:
        # One by one, for graphs differ in size.
        vectors = edges.new_zeros(rows, nodes, eigenvectors)
        for row in range(rows):
            own = real[row]
            vectors[row, own] = harmonics(edges[row, own][:, own], eigenvectors)
        if flip:
            drawn = uniform((rows, 1, eigenvectors), generator, edges.device)
            vectors = torch.where(drawn < 0.5, -vectors, vectors)
        parts.insert(0, vectors)
    tokens = Tokens(torch.cat(parts, dim=-1), order, valid=valid)
    # All coordinates are at most 1.
    return make(tokens, tokens, False, 2)


def harmonics(edges: Float64[Tensor, "n n"], count: int) -> Float64[Tensor, "n {count}"]:
    """Eigenvectors 1 to `count` of the normalised Laplacian, by rising eigenvalue, as columns."""
    degree = edges.sum(dim=-1)
    # A node without edges has a row of zeros, whatever it is divided by.
    share = torch.where(degree > 0, degree, 1.0) ** -0.5
    identity = torch.eye(len(edges), dtype=edges.dtype, device=edges.device)
    vectors = torch.linalg.eigh(identity - share[:, None] * edges * share).eigenvectors
    found = vectors[:, 1 : count + 1]
    return F.pad(found, (0, count - found.shape[1]))


def returns(edges: Float64[Tensor, "b n n"], steps: int) -> Float64[Tensor, "b n {steps}"]:
    """How probable a random walk is back at its node after 1 to `steps` steps."""
    degree = edges.sum(dim=-1, keepdim=True)
    walk = edges / torch.where(degree > 0, degree, 1.0)
    power, found = walk, [walk.diagonal(dim1=-2, dim2=-1)]
    for _ in range(1, steps):
        power = power @ walk
        found.append(power.diagonal(dim1=-2, dim2=-1))
    return torch.stack(found, dim=-1)


def _checked(adjacency: Tensor, valid: Bool[Tensor, "b n"] | None) -> Float64[Tensor, "b n n"]:
    if not isinstance(adjacency, Tensor):
        raise PositionsError(f"{_CALL}(adjacency={shown(adjacency)}): give a tensor")
    shape = tuple(adjacency.shape)
    if adjacency.ndim not in (2, 3) or shape[-1] != shape[-2] or not shape[-1]:
        raise PositionsError(
            f"{_CALL}: an adjacency of shape {shape}: (n, n) or (b, n, n) with n >= 1 is needed"
        )
    if adjacency.is_complex():
        raise PositionsError(f"{_CALL}: an adjacency of {adjacency.dtype}: give real weights")
    check_tensors(_CALL, adjacency=adjacency)
    edges = adjacency.to_dense().double().reshape(-1, *shape[-2:])
    if not bool((torch.isfinite(edges) & (edges >= 0)).all()):
        raise PositionsError(f"{_CALL}: weights of edges must be finite and at least 0")
    if not torch.equal(edges, edges.mT):
        row, one, other = (edges != edges.mT).nonzero()[0].tolist()
        raise PositionsError(
            f"{_CALL}: graph {row} has weight {edges[row, one, other].item():g} from node {one} to "
            f"{other} and {edges[row, other, one].item():g} back: eigenvectors and walks are those "
            "of undirected graphs: give adjacency.maximum(adjacency.mT), or their mean"
        )
    if valid is not None:
        if valid.shape != edges.shape[:2]:
            raise PositionsError(
                f"{_CALL}: an attention_mask of shape {tuple(valid.shape)} beside an adjacency of "
                f"shape {shape}: give one row of n entries for each graph"
            )
        if bool(edges[~valid].any()):
            raise PositionsError(
                f"{_CALL}: the attention_mask calls nodes padding that have edges: set those to 0"
            )
    # Neither eigenvectors nor walks know a unit. Only where degrees could overflow, for to divide
    # would round other weights.
    largest = edges.amax(dim=(-2, -1), keepdim=True)
    return torch.where(largest > 1e100, edges / largest, edges)
