"""lower: once per forward, carrying its positions, refusing what has no meaning."""

from dataclasses import replace

import pytest
import torch

import posenc as pe
from posenc import (
    Context,
    Documents,
    Encoding,
    Positions,
    PositionsError,
    Tags,
    Tokens,
    UnsupportedError,
    attend,
    lower,
)
from posenc import terms as t
from tests.support.oracles import drawing
from tests.support.term_examples import Sizes, inputs


class Relative(Encoding):
    """One number per distance, and a record of how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple] = []

    def lower(self, positions, context=None, *, dtype=torch.float32):
        self.calls.append((positions, context, dtype))
        return (t.DistanceTable(torch.arange(5.0)[None], 2, saturates=True),)


class ReadsInput(Relative):
    tags = Tags(needs_context=True)


class LooksBack(Relative):
    tags = Tags(causal_only=True)


class NeedsBound(Relative):
    tags = Tags(needs_extent=True)


def test_terms_made_once_serve_every_layer_and_step() -> None:
    q, k, v = inputs(Sizes(), drawing())
    encoding = Relative()
    positions = Positions.build(3, 7, causal=True)
    lowered = lower([encoding, pe.Rotary(10)], positions, dtype=torch.float64)
    first = attend(q, k, v, lowered)
    second = attend(q, k, v, lowered, causal=True)
    assert len(encoding.calls) == 1
    assert torch.equal(first, second)
    expected = attend(q, k, v, [encoding, pe.Rotary(10)], positions=positions)
    torch.testing.assert_close(first, expected, rtol=0, atol=1e-15)
    assert lowered.positions is positions
    assert [type(term) for term in lowered.terms] == [t.DistanceTable, t.Rotate]


def test_an_encoding_sees_positions_context_and_dtype() -> None:
    encoding, context = Relative(), Context(x=torch.zeros(1, 4, 8))
    lower(encoding, 4, causal=True, context=context, dtype=torch.float64)
    ((positions, got, dtype),) = encoding.calls
    assert positions.keys.position.tolist() == [0, 1, 2, 3]
    assert positions.causal
    assert got is context
    assert dtype == torch.float64


def test_a_nested_list_composes() -> None:
    parts = [[pe.Rotary(4), pe.SlidingWindow(3)], (pe.Sinks(1),), pe.NoPE(), t.Scale(2.0)]
    lowered = lower(parts, 5, causal=True)
    assert [type(term) for term in lowered.terms] == [t.Rotate, t.Mask, t.Mask, t.Scale]
    assert lower(None, 5).terms == ()
    assert lower([], 5).terms == ()


def test_positions_may_be_a_number_or_a_tensor() -> None:
    assert lower(pe.Rotary(4), 6).positions.keys.position.tolist() == [0, 1, 2, 3, 4, 5]
    at = torch.tensor([4, 9, 9])
    lowered = lower(pe.Rotary(4), at, causal=True)
    assert lowered.positions.keys.position.tolist() == [4, 9, 9]
    assert lowered.positions.causal
    rows = lower(pe.Rotary(4), torch.zeros(2, 3).long())
    assert rows.positions.k_len == 3


def test_cos_and_sin_are_made_in_the_asked_dtype_from_float64_angles() -> None:
    for dtype in (torch.float32, torch.float64):
        lowered = lower(pe.Rotary(4), 6, dtype=dtype)
        (term,) = lowered.terms
        assert term.q_angle.dtype == torch.float64
        assert lowered.form.q_waves[0].dtype == dtype
        assert torch.equal(lowered.form.q_waves[0], term.q_angle.cos().to(dtype))
        assert torch.equal(lowered.form.q_waves[1], term.q_angle.sin().to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_terms_of_another_dtype_lose_nothing(dtype: torch.dtype) -> None:
    """Angles are kept, so that float64 attention does not end up with float32 cosines."""
    q, k, v = inputs(Sizes(), drawing())
    lowered = lower(pe.Rotary(10), Positions.build(3, 7), dtype=dtype)
    expected = attend(q, k, v, pe.Rotary(10), backend="reference")
    for backend in ("sdpa", "reference"):
        actual = attend(q, k, v, lowered, backend=backend)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def test_packed_documents_as_a_list_item() -> None:
    q, k, v = inputs(Sizes(q_len=7), drawing())
    ids = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 2, 2]])
    built = Positions.build(documents=ids, causal=True)
    expected = attend(q, k, v, pe.Rotary(10), positions=built)
    actual = attend(q, k, v, [pe.Rotary(10), Documents(ids)], causal=True)
    assert torch.equal(actual, expected)
    # Positions restart, so the same tokens elsewhere in a pack get the same.
    alone = attend(q[:1, :, 3:], k[:1, :, 3:], v[:1, :, 3:], pe.Rotary(10), causal=True)
    torch.testing.assert_close(actual[:1, :, 3:], alone)


def refused(error: type[Exception], said: str):
    return pytest.raises(error, match=said)


def test_queries_and_keys_turn_once() -> None:
    with refused(UnsupportedError, r"2 rotations.*Rotary\(dim=4.*choose one"):
        lower([pe.Rotary(4), pe.Rotary(4)], 3)
    angle = torch.zeros(1, 1, 3, 2).double()
    rotate = t.Rotate(angle, angle, "half")
    with refused(UnsupportedError, "2 rotations"):
        lower([pe.Rotary(4), t.Zones(rotate, rotate, 2)], 3, causal=True)


@pytest.mark.parametrize("encoding", [pe.Sinusoidal(4), pe.Learned(4, 8)], ids=repr)
def test_an_embedding_has_no_terms(encoding: Encoding) -> None:
    kind = type(encoding).__name__
    with refused(UnsupportedError, rf"{kind} changes the embeddings.*{kind}\.embed\(x, positions"):
        lower(encoding, 3)
    with refused(UnsupportedError, f"{kind} changes the embeddings"):
        lower([pe.Rotary(4), encoding], 3)


def test_needs_that_are_not_met() -> None:
    with refused(PositionsError, r"ReadsInput reads the layer that calls it.*Context\(x="):
        lower(ReadsInput(), 3)
    with refused(UnsupportedError, r"LooksBack is defined for causal attention.*causal=True"):
        lower(LooksBack(), 3)
    with refused(PositionsError, r"NeedsBound needs to know how far.*bare tensor"):
        lower(NeedsBound(), torch.arange(3))
    sides = Positions(Tokens(torch.arange(2)), Tokens(torch.arange(3)))
    with refused(
        PositionsError, r"NeedsBound.*cross-attention.*Positions\(queries, keys, extent=N"
    ):
        lower(NeedsBound(), sides)
    assert lower(NeedsBound(), replace(sides, extent=3)).terms
    assert lower(NeedsBound(), 3).terms
    assert lower(NeedsBound(), Positions.build(ids=torch.arange(3))).terms
    assert lower(LooksBack(), 3, causal=True).terms


def test_lowered_terms_keep_their_positions() -> None:
    positions = Positions.build(4, causal=True)
    lowered = lower(pe.NoPE(), positions)
    assert lower(lowered) is lowered
    assert lower(lowered, positions, causal=True) is lowered
    with refused(PositionsError, r"carry the positions.*leave positions away"):
        lower(lowered, Positions.build(4, causal=True))
    with refused(PositionsError, r"causal=False.*lowered with causal=True"):
        lower(lowered, causal=False)
    q = torch.zeros(1, 1, 3, 4)
    with refused(PositionsError, "3 queries and 3 keys, but positions for 4 queries"):
        attend(q, q, q, lowered)


def test_lower_needs_positions() -> None:
    with refused(PositionsError, "positions=None: give Positions"):
        lower(pe.Rotary(4))


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("thing", ["rotary", pe.Rotary, 5, [pe.Rotary(4), "alibi"]], ids=repr)
def test_what_is_no_encoding_is_named(thing: object) -> None:
    kind = "str" if isinstance(thing, list) else type(thing).__name__
    with refused(UnsupportedError, rf"{kind} is no encoding: give a posenc\.Encoding"):
        lower(thing, 3)
