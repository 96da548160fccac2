"""The nodes of trees as positions: the branches that lead up to the root."""

import pytest
import torch

from posenc import Positions, PositionsError

#        0
#      1   2
#    3  4
#    5
PARENTS = torch.tensor([-1, 0, 0, 1, 1, 3])


def test_branches_lead_up_to_the_root() -> None:
    at = Positions.tree(PARENTS, degree=2, depth=3)
    assert at.keys.position.tolist() == [
        [[0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 1, 0], [2, 1, 0], [1, 1, 1]]
    ]
    assert (at.bound, at.causal, at.q_len) == (3, False, 6)
    # What is deeper than told keeps its last steps.
    short = Positions.tree(PARENTS, degree=2, depth=2, causal=True)
    assert torch.equal(short.keys.position, at.keys.position[..., :2])
    assert short.causal


def test_tokens_may_come_in_any_order() -> None:
    order = torch.tensor([5, 3, 0, 4, 2, 1])
    place = order.argsort()
    moved = torch.where(PARENTS[order] < 0, -1, place[PARENTS[order].clamp(min=0)])
    counted = Positions.tree(moved, degree=2, depth=3).keys.position[0]
    # Node 4 now stands behind node 3, and 2 before 1: children are counted as they come.
    assert counted[place].tolist() == [
        [0, 0, 0],
        [2, 0, 0],
        [1, 0, 0],
        [1, 2, 0],
        [2, 2, 0],
        [1, 1, 2],
    ]
    branches = torch.tensor([0, 0, 1, 0, 1, 0])[order]
    told = Positions.tree(moved, branches, degree=2, depth=3).keys.position[0]
    assert torch.equal(told[place], Positions.tree(PARENTS, degree=2, depth=3).keys.position[0])


def test_rows_are_trees_of_their_own_and_padding_has_no_branch() -> None:
    parents = torch.tensor([[-1, 0, 1, -1, -1], [-1, 0, 0, 0, 3]])
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    at = Positions.tree(parents, degree=3, depth=2, attention_mask=mask)
    assert at.keys.position.tolist() == [
        [[0, 0], [1, 0], [1, 1], [0, 0], [0, 0]],
        [[0, 0], [1, 0], [2, 0], [3, 0], [1, 3]],
    ]
    assert torch.equal(at.keys.valid, mask.bool())


@pytest.mark.parametrize("padding", [-1, -100, 0, 2, 5])
def test_what_stands_in_padding_is_not_read(padding: int) -> None:
    alone = Positions.tree(torch.tensor([-1, 0, 0]), degree=2, depth=2).keys.position
    rows = torch.tensor([[padding, padding, -1, 2, 2], [-1, 0, 0, padding, padding]])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0]])
    at = Positions.tree(rows, degree=2, depth=2, attention_mask=mask)
    assert torch.equal(at.keys.position[:1, 2:], alone)
    assert torch.equal(at.keys.position[1:, :3], alone)


def tree(parents: list[int], degree: int = 2, depth: int = 2, **more: object) -> Positions:
    return Positions.tree(torch.tensor(parents), degree=degree, depth=depth, **more)


WRONG = {
    "go round in a circle": lambda: tree([-1, 2, 3, 1]),
    "from node 1 of row 0": lambda: tree([-1, 1]),
    "parent of node 1 of row 0 is 7": lambda: tree([-1, 7]),
    "parent of node 0 of row 0 is -2": lambda: tree([-2, 0]),
    r"degree=2.*is child 2.*degree >= 3": lambda: tree([-1, 0, 0, 0]),
    r"degree=2\.5.*whole number": lambda: tree([-1, 0], degree=2.5),
    r"depth=2\.0.*whole number": lambda: tree([-1, 0], depth=2.0),
    r"parents=\[-1, 0\]\): give a tensor": lambda: Positions.tree([-1, 0], degree=2, depth=2),
    "branches from 0 on": lambda: tree([-1, 0], branches=torch.tensor([0, -1])),
    "both are at least 1": lambda: tree([-1, 0], depth=0),
    r"branches=.*shape \(1,\)": lambda: tree([-1, 0], branches=torch.tensor([0])),
    "float32: whole numbers": lambda: Positions.tree(torch.ones(3), degree=2, depth=2),
    r"shape \(1, 1, 1\)": lambda: Positions.tree(-torch.ones(1, 1, 1).long(), degree=2, depth=2),
    "calls padding": lambda: tree([-1, 2, 0], attention_mask=torch.tensor([[1, 1, 0]])),
    "one entry for each token": lambda: tree([-1, 0], attention_mask=torch.ones(1, 3)),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("said", WRONG)
def test_what_is_no_tree_says_so(said: str) -> None:
    with pytest.raises(PositionsError, match=said):
        WRONG[said]()


def test_padding_on_the_left_counts_in_no_order() -> None:
    mask = torch.tensor([[0, 1, 1, 1]])
    tree = Positions.tree(torch.tensor([[-1, -1, 1, 1]]), degree=2, depth=3, attention_mask=mask)
    assert torch.equal(tree.keys.order, Positions.build(attention_mask=mask).keys.order)
