"""Dual chunk attention: the distances that it makes, a published file's settings, decoding."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc.errors import SettingError
from tests.support.oracles import drawing

# Of chunks of 6 tokens and a training length of 10: where queries stand before each kind of key.
PAPER = pe.DualChunk(4, chunk=6, local=4)
OWN, BEFORE, OLD = [0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 9, 9], [9, 9, 9, 9, 9, 9]


def distances(encoding: pe.Encoding, query: int) -> Tensor:
    """From a query to every key up to itself: its first pair turns by a radian per token."""
    return pe.measure.relative_angles(encoding, query + 1)[0, :, 0].flip(0)


def test_queries_stand_where_the_paper_draws_them() -> None:
    for query in range(18):
        chunk, own = divmod(query, 6)
        old, before = max(0, chunk - 1), min(1, chunk)
        stands = [OLD[own]] * 6 * old + [BEFORE[own]] * 6 * before + [OWN[own]] * (own + 1)
        wanted = [stand - key % 6 for key, stand in enumerate(stands)]
        torch.testing.assert_close(distances(PAPER, query), torch.tensor(wanted).double())


def test_a_shorter_local_window_leaps_to_the_end_of_training() -> None:
    made = pe.DualChunk(4, chunk=6, local=2, length=12)
    assert distances(made, 8)[:6].round().int().tolist() == [11 - key for key in range(6)]
    assert distances(made, 7)[:6].round().int().tolist() == [7 - key for key in range(6)]


def test_the_million_tokens_of_qwen_stay_within_its_training() -> None:
    config = {"chunk_size": 262_144, "local_size": 8_192}
    chunk, local = config["chunk_size"] - config["local_size"], config["local_size"] + 1
    qwen = pe.DualChunk(4, chunk, local, base=1e7)
    ids = torch.tensor([0, chunk - 1, chunk, 2 * chunk - 1, 2 * chunk, 2 * chunk + 8_000, 10**6])
    at = pe.Positions.build(ids=ids, causal=True)
    (term,) = pe.lower(qwen, at).terms
    keys = term.same.k_angle[0, 0, :, 0]
    farthest = torch.stack([x.q_angle[0, 0, :, 0] for x in (term.next, term.beyond)]) - keys.min()
    assert farthest.max() == config["chunk_size"]
    # 8,001 tokens back, in the chunk before, is met at that distance.
    assert term.next.q_angle[0, 0, 5, 0] - keys[3] == 8_001


@pytest.mark.parametrize("policy", ["rotated", "raw"])
def test_a_cache_turns_keys_once_and_queries_by_chunk(policy: str) -> None:
    draw = drawing(4)
    q, k, v = (draw(2, heads, 19, 8) for heads in (4, 2, 2))
    made = pe.DualChunk(8, chunk=4, local=2)
    expected, cache = pe.attend(q, k, v, made, causal=True), pe.Cache(policy)
    steps = [slice(0, 6), *(slice(at, at + 1) for at in range(6, 19))]
    found = [
        pe.attend(*(x[:, :, new] for x in (q, k, v)), made, causal=True, cache=cache)
        for new in steps
    ]
    torch.testing.assert_close(torch.cat(found, dim=2), expected)
    assert torch.equal(cache.k, k) == (policy == "raw")


@pytest.mark.parametrize(
    ("said", "settings"),
    [
        (r"DualChunk\(chunk=0\)", {"chunk": 0, "local": 1}),
        pytest.param(
            r"DualChunk\(local=2.5\)",
            {"chunk": 4, "local": 2.5},
            marks=pytest.mark.unchecked,
        ),
        (
            r"DualChunk\(chunk=4, local=2, length=5\).*at least 6",
            {"chunk": 4, "local": 2, "length": 5},
        ),
    ],
)
def test_settings_that_have_no_meaning(said: str, settings: dict[str, int]) -> None:
    with pytest.raises(SettingError, match=said):
        pe.DualChunk(8, **settings)
