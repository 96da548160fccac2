"""Ring attention and Ulysses equal attention to the whole, run by all ranks in one process."""

from collections.abc import Iterable

import pytest
import torch

import posenc as pe
from posenc import PositionsError, SettingError, ShapeError, UnsupportedError
from posenc.encoding import Encoding
from posenc.lowering import Lowerable, lower
from posenc.parallel import ring_passes
from posenc.parallel.ring import ring
from posenc.parallel.ring_passes import Job
from posenc.parallel.sharded import Sharded
from posenc.parallel.simulator import Simulator
from posenc.parallel.ulysses import ulysses
from posenc.positions import Positions
from posenc.testing.fixtures import attends
from tests.support.oracles import drawing
from tests.support.rings import (
    WAYS,
    arrangements,
    in_parts,
    joined,
    leaves_of,
    refused,
    shared_out,
    trial_of,
    whole,
    with_gradients,
)

# How many tokens there are on as many ranks.
TOKENS = {2: 12, 3: 12, 8: 16}


RINGS = [name for name in WAYS if name != "ulysses"]


def check(encoding: Encoding, size: int, positions: Positions, names: Iterable[str] = WAYS) -> None:
    """Plans of these names against the whole, forward and backward."""
    own, qkv, context = trial_of(encoding, positions.k_len)
    expected = whole(own, qkv, context, positions)
    leaves = leaves_of(own, qkv, context)
    for name in names:
        (way, plan), ulysses = WAYS[name], name == "ulysses"
        if ulysses and not shared_out(qkv, size):
            continue
        sharded = Sharded(positions, size, plan)
        if not ulysses and refused(own, positions):
            with pytest.raises(UnsupportedError, match="use ulysses_attend"):
                in_parts(way, Simulator(size), own, qkv, context, sharded)
            continue
        out = joined(in_parts(way, Simulator(size), own, qkv, context, sharded), sharded)
        for got, wanted in zip(with_gradients(out, leaves), expected, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("size", TOKENS)
@pytest.mark.parametrize("name", pe.encodings())
def test_every_encoding_on_ranks(name: str, size: int) -> None:
    """Every example on two ranks; on more, one of each class, and on eight by one ring of three.

    Eight ranks meet twelve times as often as two, each time as two of them do.
    """
    examples = list(filter(attends, pe.encodings()[name].examples()))
    ring = RINGS[list(pe.encodings()).index(name) % len(RINGS)]
    names = [ring, "ulysses"] if size == 8 else WAYS
    for encoding in examples if size == 2 else examples[:1]:
        check(encoding, size, Positions.build(TOKENS[size], causal=True), names)


@pytest.mark.parametrize("kind", arrangements(12))
@pytest.mark.parametrize("size", [2, 3])
def test_documents_padding_windows_and_sinks_hold_across_ranks(kind: str, size: int) -> None:
    positions = arrangements(12)[kind]
    encodings = [
        pe.Rotary(8, scaling=pe.DynamicNTK(2.0, original_length=4)),
        pe.T5Bias(4, buckets=8, max_distance=20),
        pe.SlidingWindow(3),
        pe.Sinks(2, window=3, rotary=pe.Rotary(8)),
        pe.Shaw(8, clip=4),
        pe.RotaryValues(8),
        pe.XPos(8),
        pe.ForgetGate(16, heads=4),
        pe.FIRE(4, width=8, initial_threshold=6.0),
    ]
    for encoding in encodings:
        if positions.causal or not encoding.tags.causal_only:
            check(encoding, size, positions)


def test_fewer_key_heads_than_ranks() -> None:
    """Eight ranks with a query head each, of which four share a key head."""
    positions = Positions.build(16, causal=True)
    draw = torch.Generator().manual_seed(0)
    qkv = [torch.randn(2, heads, 16, 8, generator=draw).double() for heads in (8, 2, 2)]
    qkv = [x.requires_grad_() for x in qkv]
    for encoding in (pe.Rotary(8), pe.T5Bias(8).double()):
        expected = whole(encoding, qkv, None, positions)
        for way, plan in WAYS.values():
            sharded = Sharded(positions, 8, plan)
            out = joined(in_parts(way, Simulator(8), encoding, qkv, None, sharded), sharded)
            got = with_gradients(out, leaves_of(encoding, qkv, None))
            for one, wanted in zip(got, expected, strict=True):
                torch.testing.assert_close(one, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", WAYS)
def test_what_is_kept_of_every_token_goes_without_the_input(name: str) -> None:
    """Though there is a row of it for each of the batch."""
    way, plan = WAYS[name]
    gate, positions, draw = pe.ForgetGate(8, heads=4), Positions.build(12, causal=True), drawing(0)
    x, qkv = draw(2, 12, 8), [draw(2, 4, 12, 8) for _ in range(3)]
    payload = gate.double().payload(x)
    expected = pe.attend(*qkv, gate, positions=positions, context=pe.Context(payload=payload))
    sharded = Sharded(positions, 2, plan)
    parts = [[pe.shard(t, rank, 2, plan, dim=2) for rank in range(2)] for t in qkv]
    told = [pe.Context(payload=pe.shard(payload, rank, 2, plan, dim=-1)) for rank in range(2)]
    outs = way(Simulator(2), *parts, gate, positions=sharded, contexts=told)
    torch.testing.assert_close(joined(outs, sharded), expected)
    told = [pe.Context(pe.shard(x, rank, 2, plan)[:1].repeat(3, 1, 1)) for rank in range(2)]
    with pytest.raises(ShapeError, match="but q has a batch of 2"):
        way(Simulator(2), *parts, gate, positions=sharded, contexts=told)


def test_ranks_that_see_nothing_of_each_other_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """By how often attention is computed: causality, a window, documents."""
    met: list[int] = []
    attend = ring_passes.attend
    monkeypatch.setattr(ring_passes, "attend", lambda *x, **y: met.append(1) or attend(*x, **y))

    def meetings(plan: str, encoding: Lowerable, positions: Positions) -> int:
        met.clear()
        qkv = [torch.randn(2, 2, 32, 8) for _ in range(3)]
        in_parts(ring, Simulator(4), encoding, qkv, None, Sharded(positions, 4, plan))
        return len(met)

    causal, documents = Positions.build(32, causal=True), torch.arange(32) // 8
    assert meetings("contiguous", None, Positions.build(32)) == 16
    assert meetings("contiguous", None, causal) == 10
    assert meetings("zigzag", None, causal) == 16
    assert meetings("contiguous", pe.SlidingWindow(4), causal) == 7
    assert meetings("zigzag", pe.SlidingWindow(4), causal) == 10
    assert meetings("contiguous", [pe.SlidingWindow(4), pe.Sinks(1)], causal) == 9
    packed = Positions.build(documents=documents[None], causal=True)
    assert meetings("contiguous", None, packed) == 4


def test_what_a_ring_cannot_compute_is_refused_by_name() -> None:
    q, k, v = (torch.randn(1, 4, 6, 8) for _ in range(3))
    two, whole_of = Simulator(2), Positions.build(12, causal=True)
    explicit = Positions.build(ids=torch.arange(12) * 2, causal=True)
    for encoding, positions, said in (
        (pe.CoPE(8), whole_of, r"CoPE.*CountTable.*use ulysses_attend"),
        (pe.FIRE(4), explicit, r"FIRE.*DenseBias.*use ulysses_attend"),
        (lower(pe.ALiBi(4), 6), whole_of, "give the encoding, not what lower made"),
    ):
        with pytest.raises(UnsupportedError, match=said):
            ring(two, [q, q], [k, k], [v, v], encoding, positions=positions)
    path, told = pe.PaTH(16, heads=4), [pe.Context(torch.randn(1, 6, 16))] * 2
    with pytest.raises(UnsupportedError, match=r"PaTH.*does not add up.*use ulysses_attend"):
        ring(two, [q, q], [k, k], [v, v], path, positions=whole_of, contexts=told)
    with pytest.raises(ShapeError, match=r"each of 2 ranks has 8 tokens.*posenc\.shard"):
        ring(two, [q, q], [k, k], [v, v], positions=Positions.build(16))
    with pytest.raises(ShapeError, match=r"4 query heads on 3 ranks"):
        ulysses(Simulator(3), [q] * 3, [k] * 3, [v] * 3, positions=Positions.build(18))
    with pytest.raises(PositionsError, match=r"Sharded\(size=4\) on 2 ranks"):
        ring(two, [q, q], [k, k], [v, v], positions=Sharded(whole_of, 4))
    for positions in (12, torch.arange(12), None):
        with pytest.raises(PositionsError, match=r"give those of the whole sequence"):
            ring(two, [q, q], [k, k], [v, v], positions=positions)
    striped = Sharded(whole_of, 2, "striped")
    with pytest.raises(PositionsError, match=r"plan='zigzag', but Sharded\(plan='striped'\)"):
        ring(two, [q, q], [k, k], [v, v], positions=striped, plan="zigzag")
    ulysses(two, [q, q], [k, k], [v, v], positions=Sharded(whole_of, 2), plan="ulysses")
    with pytest.raises(SettingError, match="size=0"):
        Sharded(whole_of, 0)
    with pytest.raises(UnsupportedError, match="init_process_group first"):
        pe.ring_attend(q, k, v, positions=Positions.build(6))


def test_a_lost_sum_and_orders_that_restart_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults that are planted: each makes the comparison red."""
    positions = Positions.build(12, causal=True)

    def red() -> None:
        with pytest.raises(AssertionError, match="not close"):
            check(pe.ALiBi(4), 2, positions)

    with monkeypatch.context() as patch:
        mean = lambda outs, lses: (sum(outs) / 2, torch.logaddexp(*lses))  # noqa: E731
        patch.setattr(ring_passes, "merge", mean)
        red()
    with monkeypatch.context() as patch:
        restarted = [Positions.build(6, causal=True).ordered()] * 2
        patch.setattr(Sharded, "parts", property(lambda _: restarted))
        red()
    with monkeypatch.context() as patch:
        # Weights of parts that are not those of the whole.
        patch.setattr(Job, "met", lambda *x, met=Job.met: (met(*x)[0], met(*x)[1] * 0))
        red()
    check(pe.ALiBi(4), 2, positions)
