"""What is of the wrong kind for positions is refused by name, wherever it is given."""

import pytest
import torch

import posenc as pe
from posenc import Positions, PositionsError, attend
from tests.support.refusals import assert_refused

Q = torch.zeros(1, 1, 2, 8)

BAD = {
    "ids that are a list": (lambda: Positions.build(ids=[0, 1]), [r"ids=\[0, 1\]", "a tensor"]),
    "a mask that is a list": (
        lambda: Positions.build(attention_mask=[[1, 1]]),
        [r"attention_mask=\[\[1, 1\]\]", "give a tensor"],
    ),
    "documents that are a list": (
        lambda: attend(Q, Q, Q, pe.Documents([0, 1])),
        [r"documents=\[0, 1\]", "give a tensor"],
    ),
    "a list for positions": (
        lambda: attend(Q, Q, Q, positions=[0, 1]),
        [r"positions=\[0, 1\]", "give Positions, or a tensor"],
    ),
    "terms at a list": (lambda: pe.lower(None, [0, 1]), ["give Positions, or a tensor"]),
    "terms at a fraction": (lambda: pe.lower(None, 2.0), [r"positions=2\.0", "give Positions"]),
    "terms of another causality": (
        lambda: pe.lower(None, Positions.build(2), causal=True),
        ["causal=True", "built with causal=False"],
    ),
    "a causality in words": (lambda: attend(Q, Q, Q, causal="no"), ["causal='no'", "True or"]),
    "a causality in words of terms": (lambda: pe.lower(None, 2, causal="no"), ["causal='no'"]),
    "half a token": (lambda: Positions.build(2.5), [r"q_len=2\.5", "whole number"]),
    "tokens in words": (lambda: Positions.build("2"), ["q_len='2'", "whole number"]),
    "a start between": (lambda: Positions.build(2, start=0.5), [r"start=0\.5", "whole number"]),
    "an extent between": (lambda: Positions.build(2, extent=2.5), [r"extent=2\.5"]),
    "a past between": (lambda: Positions.build(2, past=0.5), [r"past=0\.5", "whole number"]),
    "a rolling past between": (lambda: Positions.rolling(past=1.5, window=2), [r"past=1\.5"]),
    "other places below zero": (
        lambda: Positions.build(2).at(torch.tensor([-1, 0])),
        [r"Positions\.at", "smallest id is -1"],
    ),
    "other places without end": (
        lambda: Positions.build(2).at(torch.tensor([0.0, torch.inf])),
        [r"Positions\.at", "finite"],
    ),
    "other places in a list": (lambda: Positions.build(2).at([0, 1]), ["a tensor of coordinates"]),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("kind", BAD)
def test_it_is_refused(kind: str) -> None:
    call, said = BAD[kind]
    assert_refused(call, PositionsError, said)
