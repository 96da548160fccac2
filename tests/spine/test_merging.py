"""merge: keys in parts give what they give together, forward and backward."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, ShapeError, attend, lower, merge
from posenc import terms as t
from posenc.lowering import Lowered
from posenc.testing.fixtures import Trial, attends
from tests.support.oracles import drawing

# Uneven on purpose; the first is seen by no early query of the others.
PARTS = (torch.tensor([7, 1, 4]), torch.tensor([0, 8]), torch.tensor([2, 3, 5, 6]))


def of_keys(lowered: Lowered, index: Tensor) -> Lowered:
    """The same terms for some of the keys."""
    positions = lowered.positions.ordered()
    positions = replace(positions, keys=positions.keys[index])
    by_key = {t.Rotate: ("k_angle", "k_log_scale"), t.Offset: ("k",), t.DenseBias: ("values",)}
    by_key |= {t.RotateValues: ("k_angle",), t.GridTable: ("k_index",), t.Polar: ("k_angle",)}

    def cut(term: t.Term) -> t.Term:
        turns = {name: cut(turn) for name, turn in t.turns_in(term).items()}
        if turns:
            return replace(term, **turns)
        told = ((name, getattr(term, name)) for name in by_key.get(type(term), ()))
        if isinstance(term, t.Transform):
            return term if term.k.shape[2] == 1 else replace(term, k=term.k[:, :, index])
        axis = -2 if isinstance(term, (t.Rotate, t.RotateValues, t.Polar)) else -1
        return replace(
            term, **{name: x.index_select(axis, index) for name, x in told if x is not None}
        )

    terms = tuple(map(cut, lowered.terms))
    return lower(terms, positions, dtype=torch.float64)


def results(out: Tensor, lse: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    seen = lse.masked_fill(lse == -torch.inf, 0.0)
    total = out.sin().sum() + seen.cos().sum()
    grads = torch.autograd.grad(total, leaves, materialize_grads=True, retain_graph=True)
    return [out, lse, *grads]


@pytest.mark.parametrize("name", pe.encodings())
def test_parts_of_the_keys_of_every_encoding(name: str) -> None:
    for encoding in filter(attends, pe.encodings()[name].examples()):
        trial = Trial.of(encoding)
        context = {"context": trial.context, "dtype": torch.float64}
        # Two documents, and padding that leaves a row of the second batch entry nothing to see.
        mask = torch.tensor([[1] * 9, [0] * 4 + [1] * 5])
        documents = torch.tensor([[0] * 5 + [1] * 4, [0] * 9])
        whole = Positions.build(documents=documents, attention_mask=mask, causal=True)
        lowered = lower(trial.encoding, whole, **context)
        # Both read the other keys of a query too.
        if any(isinstance(term, (t.CountTable, t.Householder)) for term in lowered.terms):
            continue
        q, k, v = leaves = [x.requires_grad_() for x in trial.qkv]
        leaves += trial.encoding.parameters()
        expected = results(*attend(q, k, v, lowered, return_lse=True), leaves)
        parts = []
        for index in PARTS:
            held = of_keys(lowered, index)
            if parts:
                # A sink is in one part, as a key is.
                rest = [term for term in held.terms if not isinstance(term, t.SinkLogit)]
                held = held.with_terms(rest, torch.float64)
            parts.append(attend(q, k[:, :, index], v[:, :, index], held, return_lse=True))
        outs, lses = zip(*parts, strict=True)
        for got, wanted in zip(results(*merge(outs, lses), leaves), expected, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)
        # Without the logs of the sums, parts are no more than a mean.
        assert not torch.allclose(sum(outs) / len(outs), expected[0], atol=1e-3)


def test_a_row_that_saw_nothing_stays_zero_and_halves_are_merged_in_float32() -> None:
    draw = drawing()
    out, lse = draw(2, 1, 2, 3, 4).bfloat16(), torch.tensor([0.0, -torch.inf, -torch.inf])
    lses = lse.expand(1, 2, 3), torch.tensor([1.0, 2.0, -torch.inf]).expand(1, 2, 3)
    merged, total = merge(out.unbind(), lses)
    assert (merged.dtype, total.dtype) == (torch.float32, torch.float32)
    assert torch.equal(merged[:, :, 1], out[1, :, :, 1].float())
    assert torch.equal(merged[:, :, 2], torch.zeros(1, 2, 4))
    assert total[0, 0].tolist()[1:] == [2.0, -torch.inf]
    share = torch.tensor([0.0, 1.0]).softmax(0)
    expected = share[0] * out[0, :, :, 0].float() + share[1] * out[1, :, :, 0].float()
    torch.testing.assert_close(merged[:, :, 0], expected)


def test_parts_that_do_not_fit_say_how() -> None:
    out, lse = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3)
    for outs, lses in (([], []), ([out, out[:, :1]], [lse, lse]), ([out], [lse[..., :2]])):
        with pytest.raises(ShapeError, match=r"merge\(outputs, lses\) of shapes"):
            merge(outs, lses)
