"""Embeddings from coordinates: nodes of graphs by a linear map, and of trees by their branches."""

import pytest
import torch

import posenc as pe
from posenc import Coordinates, Positions, TreePath
from posenc.errors import PositionsError, SettingError
from posenc.testing.fixtures import copy_of, require_close

EDGES = torch.diag(torch.ones(8), 1) + torch.diag(torch.ones(8), -1)
PARENTS = torch.tensor([-1, 0, 0, 1, 1, 3, 2, 2, 6])
X = torch.randn(2, 9, 24, dtype=torch.float64)


@pytest.mark.parametrize("merge", ["add", "multiply", "hadamard", "concat"])
def test_several_coordinates_by_the_papers(merge: str) -> None:
    graph = Positions.graph(EDGES, eigenvectors=3, steps=4)
    tree = Positions.tree(PARENTS, degree=3, depth=4)
    for made, at in ((Coordinates(24, 7, merge), graph), (TreePath(24, 3, 4, merge), tree)):
        encoding = copy_of(made)
        place = at.keys.position.double().expand(2, -1, -1)
        require_close(encoding.embed(X, at), encoding.reference_embed(X, place), 1e-14, repr(made))


def test_a_model_of_a_graph_does_not_see_the_order_of_its_nodes() -> None:
    """Numbering nodes anew moves what is said of them along, but for the signs of eigenvectors."""
    model = pe.Transformer(19, 24, 2, 4, Coordinates(24, axes=6), causal=False).double().eval()
    tokens, order = torch.randint(19, (1, 9)), torch.randperm(9)
    with torch.no_grad():
        said = model(tokens, Positions.graph(EDGES, steps=6))
        moved = model(tokens[:, order], Positions.graph(EDGES[order][:, order], steps=6))
    torch.testing.assert_close(moved, said[:, order], rtol=0, atol=1e-12)


def test_padding_does_not_touch_a_graph() -> None:
    model = pe.Transformer(19, 24, 2, 4, Coordinates(24, axes=5), causal=False).double().eval()
    wide = torch.zeros(12, 12)
    wide[:9, :9] = EDGES
    mask, tokens = (torch.arange(12) < 9)[None], torch.randint(19, (1, 12))
    with torch.no_grad():
        alone = model(tokens[:, :9], Positions.graph(EDGES, eigenvectors=2, steps=3))
        at = Positions.graph(wide, eigenvectors=2, steps=3, attention_mask=mask)
        padded = model(tokens, at)
    torch.testing.assert_close(padded[:, :9], alone, rtol=0, atol=1e-12)


def test_a_chain_of_only_children_is_what_tokens_that_count_are() -> None:
    encoding, chain = TreePath(24, degree=2, depth=6), torch.arange(9) - 1
    at = Positions.tree(chain, degree=2, depth=6)
    assert torch.equal(encoding.embed(X, at), encoding.embed(X, Positions.build(9)))


def test_a_step_down_is_one_linear_map() -> None:
    """What branch j makes of a node's vector does not depend on the node."""
    encoding = TreePath(24, degree=2, depth=6).double()
    at = Positions.tree(PARENTS, degree=2, depth=6)
    table = encoding.vectors(at)[0].view(9, 6, 2, 2)
    for child, parent in ((3, 1), (6, 2), (5, 3), (8, 6)):
        first = torch.zeros(2, 2).double()
        first[0] = encoding.raw.cosh().reciprocal() * 12**0.5
        pushed = torch.cat((first[None], table[parent, :-1] * encoding.raw.tanh()))
        torch.testing.assert_close(table[child], pushed, rtol=0, atol=1e-14)


def test_factors_near_one_keep_their_digits() -> None:
    encoding = TreePath(4, degree=1, depth=2)
    with torch.no_grad():
        encoding.raw.fill_(12.0)
    one = encoding.vectors(Positions.build(2))[0, 1, 0]
    exact = 2**0.5 / torch.tensor(12.0).double().cosh()
    torch.testing.assert_close(one.double(), exact, rtol=1e-6, atol=0)
    one.backward()
    assert encoding.raw.grad is not None
    assert torch.isfinite(encoding.raw.grad).all()


TREE = Positions.tree(PARENTS, degree=3, depth=4)
HALF = torch.full((9,), 0.5, dtype=torch.float64)
WRONG = {
    r"reads 3 coordinates.*Positions\.graph": lambda: Coordinates(24, 3).embed(X, None),
    r"reads 3 coordinates per token.*\(1, 9, 4\)": lambda: Coordinates(24, 3).embed(X, TREE),
    r"\(1, 9, 4\).*depth=2": lambda: TreePath(24, 3, 2).embed(X, TREE),
    r"up to 3.*degree=2": lambda: TreePath(24, 2, 4).embed(X, TREE),
    r"up to 7.*degree=2": lambda: TreePath(24, 2, 4).embed(X, torch.full((1, 9, 4), 7)),
    "give int64": lambda: TreePath(24, 3, 4).embed(X, Positions.build(ids=HALF)),
}


@pytest.mark.parametrize("said", WRONG)
def test_other_coordinates_are_refused(said: str) -> None:
    with pytest.raises(PositionsError, match=said):
        WRONG[said]()


def test_settings_are_refused() -> None:
    with pytest.raises(SettingError, match="multiple of 10"):
        TreePath(24, degree=2, depth=5)
    for make in (lambda: Coordinates(24, 0), lambda: TreePath(24, degree=0)):
        with pytest.raises(SettingError):
            make()
