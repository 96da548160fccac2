"""Rotary encodings of several coordinates per token, and those whose frequencies are trained."""

from typing import Literal

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import (
    AxialRotary,
    CacheError,
    LearnedRotary,
    MRoPE,
    Positions,
    PositionsError,
    Rotary,
    SettingError,
    ShapeError,
    SwinBias,
)
from posenc.terms import Rotate
from tests.support.oracles import drawing

# A word, an image of 2 rows and 3 columns, a word: (time, row, column) as Qwen2-VL counts.
IMAGE = [(0, 0, 0), *((1, 1 + i // 3, 1 + i % 3) for i in range(6)), (4, 4, 4)]
READERS = [
    AxialRotary(16),
    AxialRotary(12, axes=3, base=100.0, layout="interleaved"),
    MRoPE(16, (2, 3, 3)),
    MRoPE(20, (4, 3, 3), interleaved=True),
]


def qk(dim: int, length: int) -> tuple[Tensor, Tensor]:
    draw = drawing(2)
    return draw(1, 4, length, dim), draw(1, 2, length, dim)


@pytest.mark.parametrize(
    ("encoding", "alone", "first"),
    [
        (Rotary(20, rotary_dim=8, start=6), Rotary(8), 6),
        (MRoPE(20, (2, 1, 1), rotary_dim=8, start=-14), MRoPE(8, (2, 1, 1)), 6),
        (LearnedRotary(20, start=12), LearnedRotary(8), 12),
    ],
)
def test_what_turns_may_lie_anywhere_in_a_head(
    encoding: pe.Encoding, alone: pe.Encoding, first: int
) -> None:
    q, k = qk(20, 6)
    part = slice(first, first + 8)
    expected = q.clone(), k.clone()
    for whole, turned in zip(expected, pe.rotate(q[..., part], k[..., part], alone), strict=True):
        whole[..., part] = turned
    for whole, turned in zip(expected, pe.rotate(q, k, encoding), strict=True):
        assert torch.equal(turned, whole)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"start": 16}, "0 to 15, or -1 to -16 from its end"),
        ({"start": -18}, "0 to 15"),
        ({"start": 3}, "dim - start=13"),
        ({"start": 10, "rotary_dim": 8}, "from start=10 on at most 6 can turn"),
    ],
)
def test_a_start_leaves_room(settings: dict[str, int], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Rotary(16, **settings)


def ids_for(encoding: AxialRotary | MRoPE) -> Tensor:
    return torch.tensor(IMAGE)[None, :, : encoding.axes]


def test_a_grid_counts_row_by_row() -> None:
    q, k = qk(12, 15)
    places = torch.tensor([(i // 5, i % 5) for i in range(15)])[None]
    given = pe.scores(q, k, AxialRotary(12), positions=Positions.build(ids=places))
    assert torch.equal(pe.scores(q, k, AxialRotary(12, grid=(3, 5))), given)
    # Rows go on below the grid, and explicit places need none.
    assert torch.equal(pe.scores(q, k, AxialRotary(12, grid=(1, 5))), given)
    places = torch.tensor([(i // 6, i // 3 % 2, i % 3) for i in range(15)])[None]
    video = AxialRotary(12, axes=3, grid=(3, 2, 3))
    given = pe.scores(q, k, video, positions=Positions.build(ids=places))
    assert torch.equal(pe.scores(q, k, video), given)


def test_a_share_of_the_head_turns_with_one_axis() -> None:
    encoding = AxialRotary(16, layout="interleaved")
    q, k = qk(16, 1)
    down = Positions.build(ids=torch.tensor([[[3, 0]]]))
    turned, _ = pe.rotate(q, k, encoding, positions=down)
    alone, _ = pe.rotate(
        q[..., :8], k[..., :8], Rotary(8, layout="interleaved"), positions=torch.tensor([3])
    )
    torch.testing.assert_close(turned[..., :8], alone)
    assert torch.equal(turned[..., 8:], q[..., 8:])


@pytest.mark.parametrize("encoding", READERS, ids=repr)
def test_moving_along_an_axis_changes_no_score(encoding: AxialRotary | MRoPE) -> None:
    q, k = qk(encoding.dim, len(IMAGE))
    ids = ids_for(encoding)
    expected = pe.scores(q, k, encoding, positions=Positions.build(ids=ids))
    for axis in range(encoding.axes):
        moved = ids.clone()
        moved[..., axis] += 1_000
        actual = pe.scores(q, k, encoding, positions=Positions.build(ids=moved))
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)
        mirrored = ids.clone()
        mirrored[..., axis] = 5 - mirrored[..., axis]
        actual = pe.scores(q, k, encoding, positions=Positions.build(ids=mirrored))
        assert not torch.allclose(actual, expected, atol=1e-2)


def test_moving_tokens_along_a_grid_wraps() -> None:
    q, k = qk(16, 6)
    encoding = AxialRotary(16, grid=(3, 4))
    assert not encoding.tags.translation_invariant
    here, there = (
        pe.scores(q, k, encoding, positions=Positions.build(ids=torch.arange(first, first + 6)))
        for first in (0, 1)
    )
    assert not torch.allclose(here, there, atol=1e-2)


@pytest.mark.parametrize("interleaved", [False, True])
def test_on_text_mrope_is_rotary(interleaved: bool) -> None:
    q, k = qk(20, 9)
    encoding = MRoPE(20, (4, 3, 3), interleaved, base=500.0)
    expected = pe.scores(q, k, Rotary(20, base=500.0), causal=True)
    assert torch.equal(pe.scores(q, k, encoding, causal=True), expected)
    at = torch.arange(9)[None, :, None].expand(1, 9, 3)
    spread = pe.scores(q, k, encoding, positions=Positions.build(ids=at, causal=True))
    assert torch.equal(spread, expected)


@pytest.mark.parametrize(
    ("encoding", "owned"),
    [
        (MRoPE(128, (16, 24, 24)), [range(16), range(16, 40), range(40, 64)]),
        (
            MRoPE(128, (24, 20, 20), interleaved=True),
            [[*range(0, 60, 3), 60, 61, 62, 63], range(1, 60, 3), range(2, 60, 3)],
        ),
    ],
    ids=["Qwen2-VL", "Qwen3-VL"],
)
def test_sections_are_those_of_the_models(encoding: MRoPE, owned: list) -> None:
    for axis, pairs in enumerate(owned):
        ids = torch.zeros(1, 1, 3).long()
        ids[..., axis] = 1
        (term,) = encoding.lower(Positions.build(ids=ids))
        assert isinstance(term, Rotate)
        turned = (term.q_angle[0, 0, 0] != 0).nonzero()[:, 0]
        assert turned.tolist() == list(pairs)


def test_causality_reads_order_where_time_is_tied() -> None:
    q, k = qk(16, len(IMAGE))
    positions = Positions.build(ids=torch.tensor(IMAGE)[None], causal=True)
    visible = pe.scores(q, k, MRoPE(16, (2, 3, 3)), positions=positions) > -torch.inf
    past = torch.ones(len(IMAGE), len(IMAGE)).tril() > 0
    assert torch.equal(visible, past.expand_as(visible))


def test_qwen3_vl_cuts_sections_that_do_not_fit() -> None:
    """Its slices end with the head, so Qwen2-VL's sections lose 6 pairs without a word."""
    qwen = pytest.importorskip("transformers.models.qwen3_vl.modeling_qwen3_vl")
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [16, 24, 24]}
    rotary = qwen.Qwen3VLTextRotaryEmbedding(qwen.Qwen3VLTextConfig(rope_parameters=rope))
    axis_of = torch.arange(3).view(3, 1, 1, 1).repeat(1, 1, 1, 64)
    counts = rotary.recomposition_frequencies(axis_of)[0, 0, :64].bincount()
    assert counts.tolist() == [22, 21, 21]
    with pytest.raises(SettingError, match=r"sections=\(16, 24, 24\).*is pair 71 of 0 to 63"):
        MRoPE(128, (16, 24, 24), interleaved=True)


@pytest.mark.parametrize("policy", ["rotated", "raw"])
@pytest.mark.parametrize("encoding", READERS, ids=repr)
def test_decoding_over_an_image_equals_the_full_forward(
    encoding: AxialRotary | MRoPE, policy: Literal["rotated", "raw"]
) -> None:
    q, k = qk(encoding.dim, len(IMAGE))
    ids = ids_for(encoding)
    full = pe.attend(q, k, k, encoding, positions=Positions.build(ids=ids, causal=True))
    cache, outs = pe.Cache(policy), []
    for start, end in ((0, 3), (3, 4), (4, 8)):
        at = Positions.build(end - start, ids=ids[:, :end], causal=True)
        new = slice(start, end)
        outs.append(
            pe.attend(q[:, :, new], k[:, :, new], k[:, :, new], encoding, positions=at, cache=cache)
        )
    torch.testing.assert_close(torch.cat(outs, dim=2), full, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        (Rotary(16), "Rotary reads one coordinate per token"),
        (pe.XPos(16), "XPos reads one coordinate"),
        (LearnedRotary(16), "LearnedRotary reads one coordinate"),
        (pe.ALiBi(4), "reads one coordinate per token"),
        (AxialRotary(16), r"AxialRotary reads 2 coordinates.*\(1, 8, 3\): give \(b, t, 2\)"),
        (MRoPE(16, (4, 4)), r"MRoPE reads 2 coordinates.*\(1, 8, 3\)"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("cached", [False, True])
def test_a_reader_of_other_axes_says_so(encoding: pe.Encoding, said: str, cached: bool) -> None:
    q, _ = qk(16, len(IMAGE))
    positions = Positions.build(ids=torch.tensor(IMAGE)[None], causal=True)
    cache = pe.Cache("raw") if cached else None
    with pytest.raises(PositionsError, match=said):
        pe.attend(q, q, q, encoding, positions=positions, cache=cache)


def test_one_coordinate_without_a_grid_says_how_to_give_two() -> None:
    q, k = qk(16, 6)
    said = r"AxialRotary\(dim=16.*shape \(6,\).*\(b, t, 2\).*grid=\(height, width\)"
    with pytest.raises(PositionsError, match=said):
        pe.scores(q, k, AxialRotary(16))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: AxialRotary(16, axes=3), r"dim=16, axes=3.*multiple of 6"),
        (lambda: AxialRotary(16, grid=(3, 4, 5)), r"axes=2, grid=\(3, 4, 5\).*2 numbers"),
        (lambda: AxialRotary(16, grid=(3, 0)), "numbers >= 1"),
        (lambda: AxialRotary(8, grid=6), r"grid=6\).*sequence of 2 numbers"),
        (lambda: AxialRotary(8, frequencies=0.5), r"frequencies=0.5\).*sequence of 4 numbers"),
        (lambda: SwinBias(4, 6), r"SwinBias\(grid=6\).*sequence of 2 numbers"),
        (lambda: AxialRotary(16, frequencies=[1.0]), "got 1 frequencies.*8 numbers"),
        (lambda: MRoPE(16, (2, 3, 4)), r"sections=\(2, 3, 4\).*dim/2 = 8.*add up to 9"),
        (lambda: MRoPE(16, ()), "add up to dim/2 = 8"),
        (lambda: MRoPE(16, (8, 0)), "one or more per axis"),
        (lambda: MRoPE(15, (2, 3, 3)), r"MRoPE\(dim=15\)"),
        (lambda: LearnedRotary(16, rotary_dim=18), r"rotary_dim=18\): at most dim"),
        (lambda: LearnedRotary(16, heads=0), "heads=0"),
    ],
)
def test_settings_are_checked(make, said: str, unhooked: None) -> None:
    with pytest.raises(SettingError, match=said):
        make()


@pytest.mark.graph
@pytest.mark.parametrize("encoding", READERS[1::2], ids=repr)
def test_places_are_read_in_a_graph(encoding: AxialRotary | MRoPE) -> None:
    @torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
    def compiled(q: Tensor, k: Tensor, ids: Tensor) -> Tensor:
        return pe.attend(q, k, k, encoding, positions=ids, causal=True)

    for length in (5, len(IMAGE)):
        q, k = qk(encoding.dim, length)
        ids = ids_for(encoding)[:, :length]
        expected = pe.attend(q, k, k, encoding, positions=ids, causal=True)
        torch.testing.assert_close(compiled(q, k, ids), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads", [None, 4])
def test_learned_frequencies_start_as_those_of_rotary(heads: int | None) -> None:
    q, k = qk(16, 30)
    made = LearnedRotary(16, heads, base=500.0, layout="interleaved", rotary_dim=12)
    rotary = Rotary(16, base=500.0, layout="interleaved", rotary_dim=12)
    actual, expected = (pe.scores(q, k, each) for each in (made, rotary))
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-4)


def test_each_head_has_frequencies_of_its_own() -> None:
    q, k = qk(16, 6)
    made = LearnedRotary(16, heads=4)
    before = pe.scores(q, k, made)
    with torch.no_grad():
        made.log_frequency[2] += 0.5
    changed = (pe.scores(q, k, made) - before).abs().amax(dim=(0, 2, 3)) > 1e-3
    assert changed.tolist() == [False, False, True, False]


def test_frequencies_per_head_cannot_turn_shared_keys_once() -> None:
    q, k = qk(16, 6)
    made = LearnedRotary(16, heads=4)
    with pytest.raises(CacheError, match=r'Cache\(policy="raw"\)'):
        pe.attend(q, k, k, made, causal=True, cache=pe.Cache("rotated"))
    with pytest.raises(ShapeError, match=r"\(1, 4, 6\) \(batch, heads, tokens\).*\(1, 2, 6, 16\)"):
        pe.rotate(q, k, made)


def test_videorope_gives_time_the_slowest_pairs() -> None:
    """As its authors' code deals 64 pairs out: two axes in turn over 48, and time the last 16."""
    at = torch.tensor([[[100.0, 10.0, 1.0]]])
    turned = MRoPE(128, (16, 24, 24), "space").angles(at)[0, 0, 0]
    of = [10.0, 1.0] * 24 + [100.0] * 16
    slow = [10_000.0 ** (-2 * i / 128) for i in range(64)]
    expected = torch.tensor([x * y for x, y in zip(of, slow, strict=True)], dtype=torch.float64)
    torch.testing.assert_close(turned, expected, rtol=1e-12, atol=0)
