"""CoPE: what it counts, what it does not, and how it composes."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Cache, CoPE, SettingError, ShapeError, UnsupportedError, attend, scores
from posenc.encoding import Pairs
from posenc.positions import Positions
from posenc.testing.fixtures import Trial, require_close
from posenc.testing.paper import results_by_the_paper
from tests.support.oracles import drawing

HEADS, KEY_HEADS, DIM, LENGTH = 6, 3, 8, 9


def cope(rows: int = 5, heads: int | None = None) -> CoPE:
    made = CoPE(DIM, rows, heads).double()
    with torch.no_grad():
        made.weight.copy_(drawing(1)(*made.weight.shape))
    return made


def qkv() -> tuple[Tensor, Tensor, Tensor]:
    draw = drawing(2)
    return (
        draw(2, HEADS, LENGTH, DIM),
        draw(2, KEY_HEADS, LENGTH, DIM),
        draw(2, KEY_HEADS, LENGTH, DIM),
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"dim": 0}, r"CoPE\(dim=0\): dim must be a whole number"),
        ({"dim": 8, "heads": 0}, r"CoPE\(heads=0\): heads must be a whole number"),
        ({"dim": 8, "max_position": 1}, r"CoPE\(max_position=1\): it is the number of rows"),
    ],
)
def test_bad_settings(settings: dict, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        CoPE(**settings)


def test_it_starts_without_position() -> None:
    q, k, _ = qkv()
    assert torch.equal(scores(q, k, CoPE(DIM).double(), causal=True), scores(q, k, causal=True))


def test_open_gates_count_tokens() -> None:
    """Where every gate is open a query reads row i - j + 1, and the last row from there on."""
    made, ones = cope(rows=5), torch.ones(1, HEADS, LENGTH, DIM, dtype=torch.float64)
    found = scores(30 * ones, ones, made, causal=True) - scores(30 * ones, ones, causal=True)
    for i in range(LENGTH):
        for j in range(i + 1):
            expected = 30 * made.weight[0, min(i - j + 1, 4)].sum()
            torch.testing.assert_close(found[0, 0, i, j], expected)


def test_closed_gates_count_nothing() -> None:
    made, ones = cope(), torch.ones(1, HEADS, LENGTH, DIM, dtype=torch.float64)
    past = torch.ones(LENGTH, LENGTH).tril() > 0
    found = scores(30 * ones, -ones, made, causal=True) - scores(30 * ones, -ones, causal=True)
    expected = 30 * made.weight[0, 0].sum()
    torch.testing.assert_close(found[0, 0][past], expected.expand(past.sum()))


def test_biases_are_not_counted() -> None:
    q, k, _ = qkv()
    made, alibi = cope(), pe.ALiBi(HEADS)
    alone, bias = (scores(q, k, part, causal=True) for part in (made, alibi))
    content = scores(q, k, causal=True)
    both = scores(q, k, [alibi, made], causal=True)
    past = both > -torch.inf
    torch.testing.assert_close(both[past], (alone + bias - content)[past])


def test_keys_outside_a_window_are_not_counted() -> None:
    q, k, _ = qkv()
    made, width = cope(rows=9), 4
    found = scores(q, k, [made, pe.SlidingWindow(width)], causal=True)
    for i in range(LENGTH):
        seen = slice(max(0, i + 1 - width), i + 1)
        alone = scores(q[:, :, i : i + 1], k[:, :, seen], made, causal=True)
        torch.testing.assert_close(found[:, :, i : i + 1, seen], alone)


def test_beside_a_rotation_turned_content_is_counted_and_the_query_reads_as_given() -> None:
    q, k, _ = qkv()
    made, rotary = cope(heads=HEADS), pe.Rotary(DIM)
    # One encoding of twice the size: turned halves meet keys, given halves meet the table.
    whole = CoPE(2 * DIM, made.max_position, HEADS).double()
    with torch.no_grad():
        whole.weight.copy_(torch.cat((torch.zeros_like(made.weight), made.weight), dim=-1))
    turned_q, turned_k = pe.rotate(q, k.repeat_interleave(2, dim=1), rotary)
    at = torch.arange(LENGTH).double().expand(2, -1)
    expected = whole.reference_scores(
        torch.cat((turned_q, q), dim=-1),
        torch.cat((turned_k, torch.zeros_like(turned_k)), dim=-1),
        Pairs(at, at, DIM**-0.5),
    )
    actual = scores(q, k, [rotary, made], causal=True)
    torch.testing.assert_close(actual, expected.masked_fill(actual == -torch.inf, -torch.inf))


@pytest.mark.parametrize("policy", ["rotated", "raw"])
def test_it_decodes_beside_a_rotation(policy: str) -> None:
    q, k, v = qkv()
    parts = [pe.Rotary(DIM), cope(), pe.SlidingWindow(6)]
    full = attend(q, k, v, parts, causal=True)
    cache, out = Cache(policy), []
    for span in (slice(0, 4), slice(4, 5), slice(5, 9)):
        new = (x[:, :, span] for x in (q, k, v))
        out.append(attend(*new, parts, causal=True, cache=cache))
    torch.testing.assert_close(torch.cat(out, dim=2), full)


def test_what_it_refuses() -> None:
    q, k, v = qkv()
    with pytest.raises(UnsupportedError, match="CoPE is defined for causal attention only"):
        attend(q, k, v, cope())
    with pytest.raises(ShapeError, match="made for 4 heads, but q has 6"):
        attend(q, k, v, cope(heads=4), causal=True)
    with pytest.raises(ShapeError, match=r"was made for head_dim=4, but q has head_dim=8"):
        attend(q, k, v, CoPE(4), causal=True)
    with pytest.raises(UnsupportedError, match="CountTable needs the scores"):
        attend(q, k, v, cope(), causal=True, backend="sdpa")


def test_rows_fit_what_a_model_is_trained_on() -> None:
    sizes = {"model_dim": 32, "heads": 4, "head_dim": 8, "causal": True}
    for train_length, rows in ((1, 2), (24, 24), (4096, 64)):
        made = CoPE.for_model(**sizes, max_length=8192, train_length=train_length)
        assert made.weight.shape == (1, rows, 8)


def test_gates_are_counted_by_tokens_wherever_these_are_placed() -> None:
    trial = Trial.of(pe.CoPE(16, max_position=4))
    counted, tied = Positions.build(LENGTH, causal=True), torch.tensor([0, 4, 1, 1, 9, 2, 3, 8, 5])
    placed = Positions.build(ids=tied, causal=True)
    for name, expected in results_by_the_paper(trial, counted).items():
        require_close(results_by_the_paper(trial, placed)[name], expected, 1e-12, name)
        require_close(trial.results(placed)[name], expected, 1e-12, name)
