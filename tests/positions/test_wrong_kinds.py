"""What is of the wrong kind for positions is refused by name, wherever it is given."""

import pytest
import torch

import posenc as pe
from posenc import Positions, PositionsError, Tokens, attend
from tests.support.refusals import assert_refused

Q = torch.zeros(1, 1, 2, 8)
TYPES, VIDEO = torch.tensor([[2, 2]]), torch.tensor([[2, 1, 1]])

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
    "a longest between": (lambda: Positions.skipping(5, longest=10.5), [r"longest=10\.5"]),
    "half a chunk": (lambda: Positions.skipping(5, longest=9, chunks=1.5), [r"chunks=1\.5"]),
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
    "coordinates without a batch": (
        lambda: Positions.build(7, ids=torch.zeros(7, 3)),
        [r"\(7, 3\) are 7 rows of 3 tokens", r"\(b, t, axes\), ids\[None\]"],
    ),
    "coordinates without a batch in attention": (
        lambda: attend(Q, Q, Q, positions=Positions.build(ids=torch.zeros(2, 3))),
        ["positions for 3 queries and 3 keys", r"\(2, 3\) are 2 rows.*2 tokens are \(b, t, axes\)"],
    ),
    "two coordinates for one axis": (
        lambda: attend(Q, Q, Q, pe.CayleySTRING(8, heads=1), positions=Positions.grid(1, 2)),
        [r"CayleySTRING reads 1 coordinates per token", "make it with axes=2"],
    ),
    "half a row of patches": (
        lambda: Positions.grid(2.5, 2),
        [r"grid\(height=2\.5", "whole number"],
    ),
    "patches in words": (lambda: Positions.grid("a", 2), [r"grid\(height='a'", "whole number"]),
    "half a token in front": (lambda: Positions.grid(2, 2, leading=1.5), [r"leading=1\.5"]),
    "no rows of patches": (lambda: Positions.grid(2, 2, batch=0), ["0 rows", "at least 1"]),
    "fewer rows than none": (lambda: Positions.grid(2, 2, batch=-1), ["-1 rows", "at least 1"]),
    "a shift that is no number": (
        lambda: Positions.grid(2, 2, normalise="separate", shift=float("nan")),
        ["shift=nan", "finite"],
    ),
    "a jitter without end": (
        lambda: Positions.grid(2, 2, normalise="separate", jitter=float("inf")),
        ["jitter=inf", "finite"],
    ),
    "a list of tokens": (lambda: Tokens([0, 1]), [r"Tokens\(position=\[0, 1\]", "give a tensor"]),
    "orders in a list": (
        lambda: Tokens(torch.arange(2), order=[0, 1]),
        [r"Tokens\(order=\[0, 1\]", "give a tensor"],
    ),
    "a step without end": (
        lambda: Positions.mrope(TYPES, videos=VIDEO, frame_step=float("inf")),
        [r"frame_step=inf", r"below 2\*\*53"],
    ),
    "a step beyond 64 bits": (
        lambda: Positions.mrope(TYPES, videos=VIDEO, frame_step=1e300),
        [r"frame_step=1e\+300", r"below 2\*\*53"],
    ),
    "a step in words": (
        lambda: Positions.mrope(TYPES, videos=VIDEO, frame_step="fast"),
        [r"frame_step='fast'", "one number, or one for each of videos"],
    ),
    "half a patch merged": (
        lambda: Positions.mrope(TYPES, videos=VIDEO, merge=1.0),
        [r"merge=1\.0", "whole number"],
    ),
    "half a patch merged by HunYuan": (
        lambda: Positions.xdrope(TYPES, merge=1.0),
        [r"merge=1\.0", "whole number"],
    ),
    "random among more than a memory holds": (
        lambda: Positions.random(5, longest=2**40),
        [r"longest=1099511627776", "at most 1,073,741,824"],
    ),
    "other places in a list": (lambda: Positions.build(2).at([0, 1]), ["a tensor of coordinates"]),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("kind", BAD)
def test_it_is_refused(kind: str) -> None:
    call, said = BAD[kind]
    assert_refused(call, PositionsError, said)
