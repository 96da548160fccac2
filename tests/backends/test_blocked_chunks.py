"""Backend `blocked`: which chunks there are, what each of them meets, and when it is taken."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, attend, explain_backend, lower
from posenc import terms as t
from posenc.attention import build_call
from posenc.backends.blocked import chunks
from posenc.lowering import Lowerable
from tests.backends.test_blocked import DIM, ENCODINGS, HEADS, random
from tests.backends.test_blocked import small_chunks as small_chunks
from tests.support.largest import Largest
from tests.support.oracles import drawing
from tests.support.term_examples import ADDITIONS, ARRANGEMENTS, TURNS, Sizes, arranged
from tests.support.term_examples import inputs as drawn


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize(
    "name", [name for name in ENCODINGS if name not in ("nothing", "rotary")] + ["cope", "ids"]
)
def test_no_tensor_grows_with_the_square_of_the_length(name: str) -> None:
    torch.manual_seed(11)
    made = {"cope": lambda: [pe.CoPE(DIM)], "ids": lambda: [pe.T5Bias(HEADS)]} | ENCODINGS
    parts: Lowerable = made[name]()
    largest = []
    for length in (256, 512):
        q, k, v = (torch.randn(1, HEADS, length, DIM, requires_grad=True) for _ in range(3))
        ids = torch.arange(length) * 2 if name == "ids" else None
        positions = Positions.build(length, ids=ids, causal=True)
        with Largest() as seen:
            attend(q, k, v, parts, positions=positions, backend="blocked").sum().backward()
        largest.append(seen.elements)
        assert seen.elements < length**2 / 2
    assert largest[1] <= 2.1 * largest[0]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", [*TURNS, *ADDITIONS])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_every_term_and_arrangement_by_chunks(name: str, arrangement: str, monkeypatch) -> None:
    monkeypatch.setattr(chunks, "ROWS", 2)
    monkeypatch.setattr(chunks, "SCORES", 1)
    s = Sizes(q_len=7)
    positions, _ = arranged(arrangement, s, causal=True)
    both = []
    for backend in ("blocked", "reference"):
        leaves = [x.requires_grad_() for x in drawn(s, drawing(12))]
        term = (TURNS | ADDITIONS)[name](s, drawing(13))
        learned = [
            x for x in vars(term).values() if isinstance(x, Tensor) and x.is_floating_point()
        ]
        leaves += [x.requires_grad_() for x in learned]
        out = attend(*leaves[:3], [term], positions=positions, backend=backend)
        grads = torch.autograd.grad(out.sin().sum(), leaves, materialize_grads=True)
        both.append([out, *grads])
    for got, wanted in zip(*both, strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("rule", ["causality", "window", "documents", "padding"])
def test_keys_that_no_query_of_a_chunk_sees_are_not_met(rule: str) -> None:
    positions = {
        "causality": lambda: Positions.build(640, causal=True),
        "window": lambda: Positions.build(640),
        "documents": lambda: Positions.build(640, documents=torch.arange(640) // 64),
        "padding": lambda: Positions.build(640, attention_mask=torch.arange(640)[None] >= 576),
    }[rule]()
    lowered = lower([pe.SlidingWindow(32)] if rule == "window" else [], positions)
    spans = list(chunks.spans(lowered.form, 32))
    met = sum(span.rows * span.columns for span in spans)
    part = {"causality": 0.55, "window": 0.2, "documents": 0.15, "padding": 0.1}[rule]
    assert met <= part * 640**2


def test_a_chunk_is_no_longer_than_a_window_is_wide() -> None:
    q = torch.randn(1, 2, 4096, DIM)
    for masks, most in (([pe.SlidingWindow(64)], 64), ([], 4096)):
        call = build_call(q, q, q, masks, causal=True)
        _, rows = chunks.sizes_of(call)
        met = sum(span.rows * span.columns for span in chunks.spans(call.form, rows))
        assert rows <= most
        assert met <= 2.1 * most * 4096


def test_a_graph_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    q, positions = torch.randn(1, 1, 4, DIM), Positions.build(4)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with pytest.raises(pe.UnsupportedError, match="a graph leaves open"):
        attend(q, q, q, positions=positions, backend="blocked")


def test_a_gradient_of_the_gradient_is_refused() -> None:
    q, k, v = (x.requires_grad_() for x in random(8, 8))
    out = attend(q, k, v, backend="blocked")
    with pytest.raises(pe.UnsupportedError, match="no gradient of its gradient"):
        torch.autograd.grad(out.sum(), q, create_graph=True)


def test_auto_takes_it_for_many_scores_alone() -> None:
    """What the native library computes goes there, where there is one; it does not count."""
    few, many = torch.zeros(1, 8, 64, 8), torch.zeros(1, 8, 512, 8)
    counts = [pe.CoPE(8), t.Slope(torch.ones(8), inside=True)]
    assert "blocked: 32768 scores are few" in explain_backend(few, few, few, counts, causal=True)
    assert explain_backend(many, many, many, counts, causal=True).endswith("blocked: taken")
