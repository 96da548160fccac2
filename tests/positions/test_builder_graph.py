"""The nodes of graphs as positions: eigenvectors of the Laplacian and returns of random walks."""

import math

import pytest
import torch
from torch import Tensor

from posenc import Positions, PositionsError


def path(nodes: int) -> Tensor:
    one_way = torch.eye(nodes).roll(1, 1).triu(1)
    return one_way + one_way.T


def ring(nodes: int) -> Tensor:
    one_way = torch.eye(nodes).roll(1, 1)
    return one_way.maximum(one_way.T)


def laplacian(edges: Tensor) -> Tensor:
    degree = edges.double().sum(-1)
    return torch.eye(len(edges)).double() - edges / (degree[:, None] * degree).sqrt()


def test_coordinates_are_eigenvectors_in_the_order_of_their_eigenvalues() -> None:
    edges = path(7)
    at = Positions.graph(edges, eigenvectors=6)
    vectors = at.keys.position[0]
    assert (at.q_len, at.causal, at.bound, vectors.dtype) == (7, False, 2, torch.float64)
    moved = laplacian(edges) @ vectors
    values = (moved * vectors).sum(0)
    torch.testing.assert_close(moved, vectors * values, rtol=0, atol=1e-14)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(6).double(), rtol=0, atol=1e-14)
    # Of a path they are known: 1 - cos(pi j / (n - 1)).
    known = 1 - (math.pi * torch.arange(1, 7, dtype=torch.float64) / 6).cos()
    torch.testing.assert_close(values, known, rtol=0, atol=1e-14)


def test_walks_come_back_as_counted_by_hand() -> None:
    at = Positions.graph(path(3), steps=4)
    assert at.keys.position[0].tolist() == [[0, 0.5, 0, 0.5], [0, 1, 0, 1], [0, 0.5, 0, 0.5]]
    at = Positions.graph(ring(3), steps=3)
    assert at.keys.position[0].tolist() == [[0, 0.5, 0.25]] * 3


def test_eigenvectors_stand_before_walks() -> None:
    both = Positions.graph(path(5), eigenvectors=2, steps=3).keys.position
    assert torch.equal(both[..., :2], Positions.graph(path(5), eigenvectors=2).keys.position)
    assert torch.equal(both[..., 2:], Positions.graph(path(5), steps=3).keys.position)


def test_a_padded_graph_says_what_it_says_alone() -> None:
    edges = torch.zeros(2, 7, 7)
    edges[0, :4, :4], edges[1] = path(4), path(7)
    mask = torch.arange(7) < torch.tensor([[4], [7]])
    at = Positions.graph(edges, eigenvectors=5, steps=2, attention_mask=mask)
    assert torch.equal(at.keys.valid, mask)
    alone = Positions.graph(path(4), eigenvectors=5, steps=2).keys.position[0]
    torch.testing.assert_close(at.keys.position[0, :4], alone, rtol=0, atol=0)
    assert not at.keys.position[0, 4:].any()
    # Of four nodes there are three eigenvectors besides the first.
    assert not alone[:, 3:5].any()
    assert alone[:, :3].any()


def test_signs_are_drawn_by_graph_and_eigenvector_and_walks_have_none() -> None:
    edges = path(6).expand(50, 6, 6)

    def drawn(seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        at = Positions.graph(edges, eigenvectors=3, steps=2, flip=True, generator=generator)
        return at.keys.position

    plain, flipped = Positions.graph(edges, eigenvectors=3, steps=2).keys.position, drawn(0)
    assert torch.equal(flipped.abs(), plain.abs())
    assert torch.equal(flipped[..., 3:], plain[..., 3:])
    signs = (flipped[..., :3] * plain[..., :3]).sum(1).sign()
    assert {-1.0, 1.0} == set(signs[:, 0].tolist()) == set(signs[0].tolist()) | {-1.0, 1.0}
    assert len(signs.unique(dim=0)) == 8
    assert torch.equal(flipped, drawn(0))
    assert not torch.equal(flipped, drawn(1))


def test_nodes_without_edges_stay_where_they_are() -> None:
    at = Positions.graph(torch.zeros(1, 1), eigenvectors=2, steps=2)
    assert at.keys.position.tolist() == [[[0, 0, 0, 0]]]
    edges = torch.zeros(4, 4, dtype=torch.bool)
    edges[0, 1] = edges[1, 0] = True
    at = Positions.graph(edges, steps=2).keys.position
    assert at[0].tolist() == [[0, 1], [0, 1], [0, 0], [0, 0]]


def test_weights_have_no_unit_and_may_be_sparse() -> None:
    edges = torch.ones(3, 3, dtype=torch.float64) - torch.eye(3)
    expected = Positions.graph(edges, eigenvectors=2, steps=3).keys.position
    for other in (edges * 1e308, edges.to_sparse()):
        made = Positions.graph(other, eigenvectors=2, steps=3).keys.position
        torch.testing.assert_close(made[..., 2:], expected[..., 2:], rtol=0, atol=1e-12)
        # Of an eigenvalue that occurs twice the space is told.
        spans = [x[0, :, :2] @ x[0, :, :2].mT for x in (made, expected)]
        torch.testing.assert_close(*spans, rtol=0, atol=1e-12)


ONE_WAY = torch.tensor([[0.0, 1], [0, 0]])
WRONG = {
    "one coordinate at least": lambda: Positions.graph(path(3)),
    r"steps=1\.5.*whole number": lambda: Positions.graph(path(3), steps=1.5),
    r"adjacency=\[\[0\]\]\): give a tensor": lambda: Positions.graph([[0]], steps=1),
    "none below 0": lambda: Positions.graph(path(3), steps=-1),
    r"shape \(2, 3\).*\(n, n\)": lambda: Positions.graph(torch.ones(2, 3), steps=1),
    "from node 0 to 1 and 0 back.*maximum": lambda: Positions.graph(ONE_WAY, steps=1),
    "finite and at least 0": lambda: Positions.graph(-path(3), steps=1),
    "finite and at least": lambda: Positions.graph(path(3) * math.inf, steps=1),
    "real weights": lambda: Positions.graph(path(3).to(torch.complex64), steps=1),
    r"attention_mask of shape \(1, 2\)": lambda: Positions.graph(
        path(3), steps=1, attention_mask=torch.ones(1, 2)
    ),
    "padding that have edges": lambda: Positions.graph(
        path(3), steps=1, attention_mask=torch.tensor([[1, 1, 0]])
    ),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("said", WRONG)
def test_what_is_no_graph_says_so(said: str) -> None:
    with pytest.raises(PositionsError, match=said):
        WRONG[said]()


def test_padding_on_the_left_counts_in_no_order() -> None:
    mask = torch.tensor([[0, 1, 1]])
    edges = torch.zeros(1, 3, 3)
    edges[0, 1, 2] = edges[0, 2, 1] = 1
    graph = Positions.graph(edges, steps=2, attention_mask=mask)
    assert torch.equal(graph.keys.order, Positions.build(attention_mask=mask).keys.order)
