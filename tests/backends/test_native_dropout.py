"""Dropout inside the C attention kernels: what is drawn, and that both passes draw the same."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, attend, explain_backend, lower
from posenc import terms as t
from posenc.equation import output_of, scores_of, weights_of
from posenc.native.library import LIBRARY
from tests.backends.test_native_launch import poisoned, threads
from tests.support.native_kernels import BOUNDS, close, every_kind, join_offsets, learned
from tests.support.oracles import drawing
from tests.support.term_examples import Sizes, inputs

pytestmark = pytest.mark.skipif(isinstance(LIBRARY, str), reason=str(LIBRARY))


def kept(
    q: Tensor, k: Tensor, p: float, seed: int, terms: list[t.Term] | None = None, **call
) -> Tensor:
    """Which weights are kept, (b, h, tq, tk): those that identity as values shows."""
    torch.manual_seed(seed)
    v = torch.eye(k.shape[2], dtype=q.dtype).expand(*k.shape[:3], -1)
    with torch.no_grad():
        return attend(q, k, v, terms, dropout=p, backend="native", **call) > 0


def philox(counter: tuple[int, ...], seed: int, rounds: int = 7) -> list[int]:
    x, key, word = list(counter), [seed & 0xFFFFFFFF, seed >> 32], 0xFFFFFFFF
    for _ in range(rounds):
        first, second = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        upper = second >> 32 ^ x[1] ^ key[0], first >> 32 ^ x[3] ^ key[1]
        x = [upper[0], second & word, upper[1], first & word]
        key = [(key[0] + 0x9E3779B9) & word, (key[1] + 0xBB67AE85) & word]
    return x


def test_the_numbers_are_those_of_philox() -> None:
    # The known answer of Random123 for 7 rounds of zeros.
    assert philox((0, 0, 0, 0), 0) == [0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48]
    q, k = (torch.zeros(2, 3, 150, 8) for _ in range(2))
    torch.manual_seed(3)
    seed = int(torch.randint(2**62, ()))
    drawn = kept(q, k, 0.3, 3)
    for b, h, i, j in (
        (0, 0, 0, 0),
        (1, 2, 149, 149),
        (0, 1, 7, 64),
        (1, 0, 70, 17),
        (0, 2, 3, 130),
    ):
        words = philox((j // 64 * 16 + j % 16, i, b * 3 + h, 0), seed)
        assert drawn[b, h, i, j] == (words[j // 16 % 4] >= 0.3 * 2**32)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_shares_are_those_of_independent_draws(p: float) -> None:
    """Of all, of every row, column and head, and of pairs of neighbours, within 5 deviations."""
    q = torch.zeros(2, 4, 256, 8)
    drawn = kept(q, q, p, 4).double()
    for dims in ((0, 1, 2, 3), (3,), (2,), (2, 3)):
        shares = drawn.mean(dims)
        count = drawn.numel() / shares.numel()
        deviation = (p * (1 - p) / count) ** 0.5
        assert (shares - (1 - p)).abs().max() < 5 * deviation
    centred = (drawn - (1 - p)) / (p * (1 - p)) ** 0.5
    for dim in range(4):
        for step in (1, 4, 16, 64):
            if step < drawn.shape[dim]:
                length = drawn.shape[dim] - step
                pairs = centred.narrow(dim, 0, length) * centred.narrow(dim, step, length)
                assert abs(pairs.mean()) < 5 / pairs.numel() ** 0.5
    # The variance of a row's sum is that of independent draws: its own deviation is sqrt(2 / rows).
    variance = drawn.sum(-1).var() / (256 * p * (1 - p))
    assert abs(variance - 1) < 5 * (2 / 2048) ** 0.5
    other = kept(q, q, p, 5).double()
    both = ((other - (1 - p)) / (p * (1 - p)) ** 0.5 * centred).mean()
    assert abs(both) < 5 / drawn.numel() ** 0.5


def test_a_seed_repeats_it_for_any_threads_and_tiles() -> None:
    q, k, _ = (x.float() for x in inputs(Sizes(2, 4, 4, 200, 200, 8, 8), drawing(41)))
    expected = kept(q, k, 0.4, 6)
    assert torch.equal(kept(q, k, 0.4, 6), expected)
    assert not torch.equal(kept(q, k, 0.4, 7), expected)
    for count in (1, 2, 3):
        with threads(count):
            assert torch.equal(kept(q, k, 0.4, 6), expected)
    # Padding and documents cut tiles elsewhere.
    mask = torch.ones(2, 200)
    mask[0, :37], mask[1, 140:] = 0, 0
    padded = kept(q, k, 0.4, 6, positions=Positions.build(attention_mask=mask))
    assert torch.equal(padded, expected & mask.bool()[:, None, None])
    documents = torch.arange(200)[None] // 29
    packed = kept(q, k, 0.4, 6, positions=Positions.build(documents=documents))
    assert torch.equal(packed, expected & (documents[:, :, None] == documents[:, None])[:, None])
    with torch.no_grad():
        first, second = (attend(q, k, k, dropout=0.4, backend="native") for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("which", ["every kind", "count", "rotary"])
def test_it_is_the_equation_with_the_weights_that_are_kept(which: str, dtype: torch.dtype) -> None:
    s = Sizes(2, 4, 2, 100, 131, 12, 20)
    p, draw = 0.3, drawing(42)
    terms = {
        "every kind": lambda: every_kind(s, draw),
        "count": lambda: [t.CountTable(draw(1, 9, 12) / 50), t.Mask(t.Window(90))],
        "rotary": lambda: [pe.Rotary(12), t.Mask(t.Window(70)), t.Mask(t.Sink(3))],
    }[which]()
    q, k, v = (x.to(dtype).requires_grad_() for x in inputs(s, draw))
    seen = [term for term in terms if isinstance(term, t.Mask)]
    drawn = kept(torch.zeros_like(q), torch.zeros_like(k), p, 8, seen, causal=True)
    wide, leaves = [x.detach().double().requires_grad_() for x in (q, k, v)], learned(terms)
    lowered = lower(terms, Positions.build(100, 131, causal=True), dtype=torch.float64)
    weights = weights_of(scores_of(*wide[:2], lowered, 12**-0.5)) * drawn / (1 - p)
    out = output_of(weights, wide[2], lowered)
    wanted = [out, *torch.autograd.grad(out.sin().sum(), [*wide, *leaves], materialize_grads=True)]
    for count in (1, 3):
        torch.manual_seed(8)
        with threads(count), poisoned():
            out = attend(q, k, v, terms, causal=True, dropout=p, backend="native")
            made = torch.autograd.grad(out.sin().sum(), [q, k, v, *leaves], materialize_grads=True)
        pair = [out, *made], list(wanted)
        for side in pair:
            join_offsets(side, leaves, terms)
        close(*pair, dtype)


def test_auto_takes_it_where_sdpa_would_keep_all_weights() -> None:
    """From 16 queries on, of as few pairs as there are."""
    q = torch.zeros(1, 2, 16, 8)
    assert explain_backend(q, q, q, causal=True).startswith("native: attention without bias")
    state = torch.get_rng_state()
    out = attend(q, q, q + 1, causal=True, dropout=0.5)
    torch.set_rng_state(state)
    assert torch.equal(out, attend(q, q, q + 1, causal=True, dropout=0.5, backend="native"))


@pytest.mark.graph
def test_graphs_draw_their_seed() -> None:
    leaves = [x.float().requires_grad_() for x in inputs(Sizes(1, 2, 2, 70, 70, 8, 8), drawing(43))]

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attend(q, k, v, pe.ALiBi(2), causal=True, dropout=0.3, backend="native")

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    results = []
    for function in (run, compiled):
        torch.manual_seed(9)
        outs = [function(*leaves) for _ in range(2)]
        results.append([*outs, *torch.autograd.grad(outs[1].sin().sum(), leaves)])
    assert not torch.equal(*results[0][:2])
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)


def test_a_default_device_does_not_move_the_seed() -> None:
    q = torch.linspace(-1, 1, 4 * 20 * 8).view(1, 4, 20, 8)
    outs = []
    for device in ("cpu", "meta"):
        torch.manual_seed(3)
        with torch.device(device):
            outs.append(attend(q, q, q, pe.ALiBi(4), causal=True, dropout=0.3, backend="native"))
    assert torch.equal(*outs)
