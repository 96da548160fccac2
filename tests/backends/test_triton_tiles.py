"""Which tiles Triton's attention meets and how: against all pairs, one by one; and what that gives.

Tiles are small here, and of other sizes for queries than for keys.
"""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, attend
from posenc import terms as t
from tests.support.triton_ready import DEVICE, EXACT, MARKS, READY, close, draw

pytestmark = [*MARKS, pytest.mark.usefixtures("small_tiles")]

if READY:
    import triton
    import triton.language as tl

    from posenc.triton import table_gradient
    from posenc.triton.kernel_args import Inputs, KernelArgs
    from posenc.triton.spans import ends_of, key_tiles, query_tiles, tile_at
    from posenc.triton.tile_lists import made_for, tile_kinds

    @triton.jit
    def tell_tiles(
        out, count, n0, q_len, k_len, behind, ahead,
        CAUSAL: tl.constexpr, WIDTH: tl.constexpr, SINKS: tl.constexpr, PREFIX: tl.constexpr,
        NEAR: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, KEYS: tl.constexpr,
    ):  # fmt: skip
        """Of every step the tile, its kind, and whether it is of the future."""
        if KEYS:
            span = query_tiles(
                n0, q_len, k_len, behind, ahead, CAUSAL, WIDTH, SINKS, PREFIX, NEAR, BM, BN
            )
        else:
            span = key_tiles(
                n0, q_len, k_len, behind, ahead, CAUSAL, WIDTH, SINKS, PREFIX, NEAR, BM, BN
            )
        of_far, unmasked, every = ends_of(span, out, True)
        tl.store(count, every)
        for kind in tl.static_range(3):
            begin = of_far * 0 if kind == 0 else (of_far if kind == 1 else unmasked)
            stop = of_far if kind == 0 else (unmasked if kind == 1 else every)
            for step in range(begin, stop):
                n, is_ahead = tile_at(step, span, out, kind == 0, kind == 2, KEYS, True)
                tl.store(out + 3 * step, n)
                tl.store(out + 3 * step + 1, kind)
                tl.store(out + 3 * step + 2, tl.where(is_ahead, 1, 0))


def told(first: int, keys: bool, *settings: Any) -> list[tuple[int, int, int]]:
    out = torch.full((3 * 64,), -1, dtype=torch.int32, device=DEVICE)
    count = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    tell_tiles[(1,)](out, count, first, *settings, keys)
    return [tuple(row) for row in out.view(-1, 3)[: int(count)].tolist()]


RULES = [(True, 0, 0, 0), (False, 0, 0, 0), (True, 9, 0, 0), (True, 9, 5, 0), (True, 0, 0, 11)]
RULES += [(False, 6, 0, 0), (False, 6, 3, 0), (True, 20, 10, 13), (True, 1, 1, 0)]


@pytest.mark.parametrize("rule", RULES)
def test_every_visible_pair_is_met_once_in_a_tile_of_its_kind(
    rule: tuple[bool, int, int, int],
) -> None:
    """Far tiles and near ones hide nothing; in a far one all distances are of one end."""
    causal, width, sinks, prefix = rule
    bm, bn = 8, 4
    for (q_len, k_len), (behind, ahead) in itertools.product([(16, 17), (7, 29)], [(0, 0), (5, 3)]):
        i, j = torch.arange(q_len)[:, None] + k_len - q_len, torch.arange(k_len)
        seen = torch.ones(q_len, k_len, dtype=torch.bool)
        if causal:
            seen &= (j <= i) | (j < prefix)
        if width:
            seen &= ((j - i).abs() < width) | (j < sinks)
        settings = q_len, k_len, behind, ahead, causal, width, sinks, prefix, True, bm, bn
        for keys, block in ((False, bm), (True, bn)):
            for first in range(0, k_len if keys else q_len, block):
                tiles = told(first, keys, *settings)
                met = [n for n, _, _ in tiles]
                assert len(met) == len(set(met))
                cut = slice(first, first + block)
                rest = (seen[:, cut] if keys else seen[cut].T).clone()
                distances = (j - i)[:, cut] if keys else (j - i)[cut].T
                other = bm if keys else bn
                for n, kind, is_ahead in tiles:
                    part = slice(n * other, (n + 1) * other)
                    if kind < 2:
                        assert rest[part].all()
                    if kind == 0:
                        of = distances[part]
                        assert (of >= ahead if is_ahead else of <= -behind).all()
                    rest[part] = False
                assert not rest.any()


def test_lists_tell_of_all_visible_pairs() -> None:
    generator = torch.Generator().manual_seed(0)
    for causal, width, sinks, prefix in RULES:
        document = torch.randint(3, (2, 64), generator=generator).sort().values
        order = torch.arange(64).expand(2, 64) - 5
        order = torch.where(torch.rand(2, 64, generator=generator) < 0.1, order + 3, order)
        valid = torch.arange(64) < torch.tensor([[64], [50]])
        x, table = draw(2, 1, 64, 8).cpu(), draw(1, 9).cpu()
        places = [order, order, order, order, document, document, valid]
        rules = 3, 1.0, causal, width, sinks, prefix
        args = KernelArgs(Inputs(x, x, x, table, None, None, places, *rules, plain=False))
        kinds, ahead = tile_kinds(args, 8, 4)
        distance = order[:, None] - order[:, :, None]
        seen = (document[:, None] == document[:, :, None]) & valid[:, None]
        first = order[:, None] < prefix if prefix else torch.zeros_like(seen)
        sink = order[:, None] < sinks if sinks else torch.zeros_like(seen)
        seen &= (distance <= 0) | first if causal else torch.ones_like(seen)
        seen &= (distance.abs() < width) | sink if width else torch.ones_like(seen)

        def tiled(pairs: Tensor) -> Tensor:
            return pairs.unfold(1, 8, 8).unfold(2, 4, 4).flatten(3)

        pairs, far = tiled(seen), tiled(distance)
        assert not pairs[kinds == 3].any()
        assert pairs[kinds < 2].all()
        ends = torch.where(ahead[..., None], far >= 5, far <= -3)
        assert ends[kinds == 0].all()


def test_lists_hold_each_tile_once_by_its_kind() -> None:
    order = torch.arange(64)[None]
    document = (order >= 48).long()
    places = [order] * 4 + [document, document, torch.ones(1, 64, dtype=torch.bool)]
    x = draw(1, 1, 64, 8).cpu()
    inputs = Inputs(x, x, x, None, None, None, places, 0, 1.0, True, 0, 0, 0, plain=False)
    entries, ends, *_, of_keys, key_ends = made_for(inputs, backward=True)
    # Two tiles of queries, whose second has both documents, and four of keys.
    assert ends.tolist() == [[[0, 0, 2], [0, 0, 4]]]
    assert entries[0, 0, :2].tolist() == [0, 2]
    assert entries[0, 1].tolist() == [0, 2, 4, 6]
    # Two tiles of keys and four of queries, of which the third sees all of the first.
    assert key_ends.tolist() == [[[1, 1, 3], [0, 0, 2]]]
    assert of_keys[0, 0, :3].tolist() == [4, 0, 2]
    assert of_keys[0, 1, :2].tolist() == [4, 6]


def both(terms: Any, leaves: tuple[Tensor, ...], sizes: tuple[int, ...], lse: bool, **call: Any):
    """Triton and the reference: outputs and gradients of q, k, v and leaves."""
    batch, heads, groups, q_len, k_len, dim = sizes
    q = draw(batch, heads, q_len, dim).requires_grad_()
    k, v = (draw(batch, groups, k_len, dim, seed=s).requires_grad_() for s in (2, 3))
    results = []
    for name in ("triton", "reference"):
        got = attend(q, k, v, terms, **call, backend=name, return_lse=lse)
        out, level = got if lse else (got, None)
        loss = out.sin().sum() + (level.cos().sum() if level is not None else 0.0)
        results.append((out, *torch.autograd.grad(loss, (q, k, v, *leaves))))
    for actual, expected in zip(*results, strict=True):
        close(actual, expected)


@pytest.mark.parametrize("length", [31, 32, 33, 65])
@pytest.mark.parametrize("causal", [True, False])
def test_all_kinds_of_tiles_at_the_edges_of_tiles(length: int, causal: bool) -> None:
    table = draw(2, 11).requires_grad_()
    terms = [t.DistanceTable(table, 7, saturates=True), t.Slope(draw(2).abs(), draw(2))]
    terms += [t.Mask(t.Window(29)), t.Mask(t.Sink(2))] if length == 65 else []
    both(terms, (table,), (1, 2, 1, length, length + 1, 8), False, causal=causal)


def offsets(batch: int, heads: int, q_len: int, k_len: int) -> t.Offset:
    gates = draw(batch, heads, k_len).abs().cumsum(-1)
    q = gates[..., k_len - q_len :].clone().requires_grad_()
    return t.Offset(-q.detach().requires_grad_(), gates.requires_grad_())


@pytest.mark.parametrize("arrangement", ["plain", "packed", "everybody", "window and sink"])
def test_offsets_and_their_gradients(arrangement: str) -> None:
    offset = offsets(2 if arrangement == "plain" else 1, 4, 37, 37)
    terms: list[Any] = [offset]
    leaves = [offset.q, offset.k]
    call: dict[str, Any] = {"causal": arrangement != "everybody"}
    if arrangement == "packed":
        call = {"positions": Positions.build(documents=torch.arange(37) // 15, causal=True)}
    if arrangement == "window and sink":
        sink, values = draw(4).requires_grad_(), draw(4, 9).requires_grad_()
        table = t.DistanceTable(values, 8, saturates=True)
        terms += [t.SinkLogit(sink), t.Mask(t.Window(20)), t.Slope(draw(4).abs()), table]
        leaves += [sink, values]
    both(terms, tuple(leaves), (2, 4, 2, 37, 37, 8), arrangement == "packed", **call)


def test_large_offsets_keep_their_differences() -> None:
    """Which float32 would round to eighths."""
    base = torch.arange(20, dtype=torch.float64, device=DEVICE) / 16 + 2.0**20
    term = t.Offset(-base.expand(1, 2, -1), base.expand(1, 2, -1))
    q, k = draw(1, 2, 20, 8, dtype=torch.float32), draw(1, 2, 20, 8, dtype=torch.float32)
    out = attend(q, k, k, term, causal=True, backend="triton")
    expected = attend(*(x.double() for x in (q, k, k)), term, causal=True, backend="reference")
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)


def test_queries_take_turns_where_sums_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_gradient, "SHARE", 0)
    monkeypatch.setattr(table_gradient, "BYTES", 0)
    values = draw(4, 101).requires_grad_()
    both(t.DistanceTable(values, 50), (values,), (1, 4, 2, 50, 51, 8), False, causal=False)


def test_lists_are_made_once_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    from posenc.triton import tile_lists

    made = []
    whole = tile_lists.made_for
    monkeypatch.setattr(tile_lists, "made_for", lambda *given: made.append(0) or whole(*given))
    documents = torch.arange(40, device=DEVICE) // 15
    lowered = pe.lower(pe.ALiBi(2), Positions.build(documents=documents, causal=True))
    q = draw(1, 2, 40, 8).requires_grad_()
    for _ in range(3):
        attend(q, q, q, lowered, backend="triton").sum().backward()
    assert made == [0]


@pytest.mark.parametrize("causal", [True, False])
def test_flex_attention_agrees(causal: bool) -> None:
    """FlexAttention, as torch has it, on what it can do on this device: no gradients on CPU."""
    q, k, v = (draw(1, 2, 40, 16, dtype=torch.float32, seed=s) for s in (1, 2, 3))
    table = t.DistanceTable(draw(2, 9, dtype=torch.float32), 6, saturates=True)
    with torch.no_grad():
        for terms in ([table], [t.Slope(draw(2).abs().float())], [table, t.Mask(t.Window(17))]):
            out = attend(q, k, v, terms, causal=causal, backend="triton")
            close(out, attend(q, k, v, terms, causal=causal, backend="flex"), torch.float32)


def test_two_runs_of_packed_input_give_the_same_bits() -> None:
    values = draw(2, 9).requires_grad_()
    positions = Positions.build(documents=torch.arange(40, device=DEVICE) // 15, causal=True)
    q = draw(1, 2, 40, 8).to(EXACT).requires_grad_()
    table = t.DistanceTable(values, 8, saturates=True)
    runs = []
    for _ in range(2):
        out = attend(q, q, q, table, positions=positions, backend="triton")
        runs.append((out, *torch.autograd.grad(out.sin().sum(), (q, values))))
    for one, two in zip(*runs, strict=True):
        assert torch.equal(one, two)
