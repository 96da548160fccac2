"""Positions in time: stamps with fractions and gaps, read by every encoding of one axis."""

import pytest
import torch

import posenc as pe
from posenc import Cache, Positions, attend, lower, scores
from posenc.caches.cache import Policy
from posenc.encodings import members
from posenc.errors import PositionsError
from posenc.positions import Tokens
from posenc.terms import DenseBias, DistanceTable
from posenc.testing.caches import under_each_policy
from posenc.testing.fixtures import (
    LENGTH,
    Trial,
    attends,
    causalities,
    model_for,
    require_close,
    tokens_for,
)
from posenc.testing.paper import results_by_the_paper

# Binary fractions, so that adding the same to all of them rounds nothing.
GAPS = [0.0, 0.5, 1.25, 0.75, 2.5, 0.25, 1.0, 0.125, 1.5]
STAMPS = torch.tensor(GAPS, dtype=torch.float64).cumsum(0)
EXTENT = 20

# What has rows, digits or buckets of whole positions or distances, and none between them.
WHOLE = {
    *("binary", "deberta", "floater", "learned", "recurrent", "relative_projection", "shaw", "t5"),
    *("transformer_xl", "tree_path"),
}

# Tokens are near by their order, at distances in time: no paper says what that should be.
ZONED = {"lm_infinite", "rerope", "self_extend", "sinks"}


def examples(whole: bool) -> list[pe.Encoding]:
    """Examples that read one coordinate, of encodings of whole positions or of all others."""
    kinds = [kind for name, kind in members().items() if (name in WHOLE) == whole]
    return [encoding for kind in kinds for encoding in kind.examples() if encoding.axes == 1]


def at(stamps: torch.Tensor, q_len: int | None = None, causal: bool = True) -> Positions:
    return Positions.build(q_len, ids=stamps, causal=causal, extent=EXTENT)


@pytest.mark.parametrize(
    "encoding", [e for e in examples(whole=False) if e.name not in ZONED], ids=repr
)
def test_time_stamps_are_read_as_the_paper_says(encoding: pe.Encoding) -> None:
    trial = Trial.of(encoding)
    for causal in causalities(encoding):
        positions = Positions.build(ids=STAMPS, causal=causal)
        actual, expected = trial.results(positions), results_by_the_paper(trial, positions)
        for name, value in actual.items():
            require_close(value, expected[name], 1e-12, name)


@pytest.mark.parametrize("encoding", examples(whole=False), ids=repr)
def test_whole_stamps_are_positions(encoding: pe.Encoding) -> None:
    trial, steps = Trial.of(encoding), torch.arange(LENGTH) * 2
    expected = trial.results(at(steps))
    for name, value in trial.results(at(steps.double())).items():
        require_close(value, expected[name], 1e-12, name)


@pytest.mark.parametrize(
    "encoding",
    [e for e in examples(whole=False) if e.tags.translation_invariant and attends(e)],
    ids=repr,
)
def test_only_time_between_stamps_matters(encoding: pe.Encoding) -> None:
    trial = Trial.of(encoding)
    for causal in causalities(encoding):
        expected = trial.scores(positions=Positions.build(ids=STAMPS, causal=causal))
        later = trial.scores(positions=Positions.build(ids=STAMPS + 1234.5, causal=causal))
        require_close(later, expected, 1e-9, f"causal={causal}")


@pytest.mark.parametrize("encoding", examples(whole=False), ids=repr)
def test_decoding_at_time_stamps_is_the_full_forward(encoding: pe.Encoding) -> None:
    """Each call is told the stamps of all tokens so far."""
    model, tokens = model_for(encoding), tokens_for()
    with torch.no_grad():
        expected = model(tokens, at(STAMPS))

    def decode(policy: Policy) -> None:
        caches, steps, end = [Cache(policy, EXTENT) for _ in model.blocks], [], 0
        for new in (4, 1, 1, 1, 2):
            end += new
            steps.append(model(tokens[:, end - new : end], at(STAMPS[:end], new), caches))
        require_close(torch.cat(steps, dim=1), expected, 1e-9, policy)

    under_each_policy(decode)


@pytest.mark.parametrize("encoding", examples(whole=True), ids=repr)
def test_what_counts_positions_says_so(encoding: pe.Encoding) -> None:
    trial = Trial.of(encoding)
    with pytest.raises(PositionsError, match=r"whole.*give int64 positions, or take an encoding"):
        trial.results(at(STAMPS))
    # Whole stamps with gaps are no fractions.
    assert trial.results(at(torch.arange(LENGTH) * 2))


def test_encodings_of_whole_positions_are_all_named() -> None:
    assert members().keys() >= WHOLE | ZONED


@pytest.mark.parametrize(
    "encoding",
    [pe.KERPLE(4), pe.KERPLE(4, kind="power"), pe.Sandwich(4), pe.HardALiBi(4)],
    ids=repr,
)
def test_a_formula_of_distance_has_a_table_or_a_number_per_pair(encoding: pe.Encoding) -> None:
    whole = lower(encoding, at(torch.arange(LENGTH) * 2)).terms
    exact = lower(encoding, at(STAMPS)).terms
    assert isinstance(whole[0], DistanceTable)
    assert isinstance(exact[0], DenseBias)
    assert exact[0].values.shape == (1, 4, LENGTH, LENGTH)


def test_rows_of_a_batch_have_their_own_stamps() -> None:
    rows = torch.stack([STAMPS, STAMPS.flip(0).cumsum(0)])
    q, k, v = torch.randn(3, 2, 4, LENGTH, 8, dtype=torch.float64).unbind()
    for encoding in (pe.KERPLE(4).double(), pe.ALiBi(4), pe.Rotary(8)):
        both = attend(q, k, v, encoding, positions=Positions.build(ids=rows, causal=True))
        for row in range(2):
            one = slice(row, row + 1)
            positions = Positions.build(ids=rows[row], causal=True)
            alone = attend(q[one], k[one], v[one], encoding, positions=positions)
            torch.testing.assert_close(both[one], alone, rtol=0, atol=1e-12)


def test_a_packed_and_padded_series_says_what_it_says_alone() -> None:
    q, k, v = torch.randn(3, 1, 4, LENGTH, 8, dtype=torch.float64).unbind()
    stamps = torch.cat((STAMPS[:4], STAMPS[4:7] - STAMPS[4], torch.zeros(2, dtype=torch.float64)))
    real = torch.tensor([[1] * 7 + [0] * 2])
    documents = torch.tensor([[0] * 4 + [1] * 3 + [1] * 2])
    packed = Positions.build(attention_mask=real, documents=documents, ids=stamps, causal=True)
    for encoding in (pe.KERPLE(4).double(), pe.ALiBi(4), pe.Rotary(8), pe.FIRE(4).double()):
        together = attend(q, k, v, encoding, positions=packed)
        for part in (slice(0, 4), slice(4, 7)):
            positions = Positions.build(ids=STAMPS[part] - STAMPS[part.start], causal=True)
            alone = attend(
                q[:, :, part], k[:, :, part], v[:, :, part], encoding, positions=positions
            )
            torch.testing.assert_close(together[:, :, part], alone, rtol=0, atol=1e-12)


def test_windows_count_tokens_and_hard_alibi_measures_time() -> None:
    q = torch.zeros(1, 1, LENGTH, 8, dtype=torch.float64)
    by_order = scores(q, q, pe.SlidingWindow(2), positions=at(STAMPS))
    assert (by_order > -torch.inf).sum(-1)[0, 0].tolist() == [1] + [2] * (LENGTH - 1)
    by_time = scores(q, q, pe.HardALiBi(1, windows=[2]), positions=at(STAMPS))
    near = (STAMPS[:, None] - STAMPS < 2) & (STAMPS[:, None] >= STAMPS)
    assert torch.equal(by_time[0, 0] == 0, near)


def test_queries_may_stand_between_the_keys() -> None:
    """What was measured at some times is asked for at others, each way the distance in time."""
    asked = torch.tensor([1.0, 3.5], dtype=torch.float64)
    q = torch.zeros(1, 1, 2, 8, dtype=torch.float64)
    k = torch.zeros(1, 1, LENGTH, 8, dtype=torch.float64)
    positions = Positions(Tokens(asked), Tokens(STAMPS))
    bias = scores(q, k, pe.ALiBi(1, slopes=[1.0]), positions=positions)
    assert torch.equal(bias[0, 0], -(STAMPS - asked[:, None]).abs())


@pytest.mark.parametrize("encoding", [pe.Rotary(8), pe.ALiBi(4), pe.KERPLE(4)], ids=repr)
@pytest.mark.parametrize(("epoch", "off"), [(0.0, 2e-6), (1.75e9, 5e-6)])
def test_seconds_since_1970_cost_no_digits_of_float32(
    encoding: pe.Encoding, epoch: float, off: float
) -> None:
    """Angles and distances are float64, so that float32 sees what is left of 1e9 seconds."""
    q, k, v = torch.randn(3, 1, 4, LENGTH, 8).unbind()
    exact = attend(q.double(), k.double(), v.double(), encoding, positions=at(STAMPS))
    positions = Positions.build(ids=STAMPS + epoch, causal=True)
    out = attend(q, k, v, encoding, positions=positions)
    assert (out - exact).abs().max() < off


def test_nanoseconds_since_1970_are_no_positions() -> None:
    """float64 holds 1.75e18 in steps of 256, so that neighbours fall together."""
    nanoseconds = 1_750_000_000_000_000_000 + torch.arange(4) * 20
    assert nanoseconds.double().unique().numel() == 1
    assert (nanoseconds - nanoseconds[0]).double().tolist() == [0, 20, 40, 60]


@pytest.mark.parametrize("encoding", [pe.ALiBi(4), pe.ALiBi(4, inside=True), pe.RotaryValues(16)])
def test_a_unit_of_time_learns_the_same_from_every_backend(encoding: pe.Encoding) -> None:
    """Multiples of stamps, as where the unit is a parameter of the model."""
    trial = Trial.of(encoding, dtype=torch.float64)
    unit = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    found: dict[str, torch.Tensor] = {}
    for name in ("reference", "blocked", "flex", "native"):
        positions = Positions.build(ids=STAMPS * unit, causal=True)
        try:
            out = attend(*trial.qkv, encoding, positions=positions, backend=name)
        except pe.UnsupportedError:
            continue
        (found[name],) = torch.autograd.grad(out.square().sum(), unit)
    assert "blocked" in found
    for name, gradient in found.items():
        require_close(gradient, found["reference"], 1e-12, name)
