"""Random sets of terms in one call, as no encoding lowers to: every backend gives what they mean.

Short here; `make fuzz` runs as many examples as it is asked for, from a seed.
"""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posenc import terms as t
from posenc.attention import attend
from posenc.backends import BACKENDS
from posenc.errors import PosencError, UnsupportedError
from posenc.positions import Positions
from tests.fuzz.calls import arrangements, fuzzed
from tests.support.native_kernels import learned
from tests.support.oracles import drawing
from tests.support.term_examples import (
    ADDITIONS,
    CAUSAL,
    TRANSFORMS,
    TURNS,
    VALUE_TURNS,
    Sizes,
    inputs,
)

SOME = st.sampled_from
RULES = st.builds(t.Window, SOME([1, 5, 2**40])) | st.builds(t.Chunk, SOME([1, 7, 2**40]))
# A count of 0 is no sink and no prefix, at negative orders too.
COUNTED = st.builds(t.Sink, st.integers(0, 3)) | st.builds(t.Prefix, st.integers(0, 3))


@dataclass(frozen=True)
class Terms:
    """One call of terms by their names in `term_examples`, and of rules."""

    names: tuple[str, ...]
    rules: tuple[t.MaskRule, ...]
    positions: Positions
    sizes: Sizes
    lse: bool
    seed: int


@st.composite
def calls(draw: st.DrawFn) -> Terms:
    names = draw(st.lists(SOME(list(ADDITIONS)), max_size=6))
    for kind in (TRANSFORMS, TURNS, VALUE_TURNS):
        names += draw(st.lists(SOME(list(kind)), max_size=1))
    batch, length = draw(st.integers(1, 2)), draw(st.integers(1, 40))
    causal = any(name in CAUSAL for name in names) or draw(st.booleans())
    positions = draw(arrangements(batch, length, causal))
    key_heads = draw(SOME([1, 2, 3]))
    sizes = Sizes(
        batch,
        key_heads * draw(SOME([1, 2, 4])),
        key_heads,
        positions.q_len,
        positions.k_len,
        # Of odd widths vectors have a rest, which rows that lie one after another share.
        draw(SOME([10, 17, 33, 65, 127, 130])),
        draw(SOME([2, 3, 16, 33])),
        reach=64,
    )
    rules = tuple(draw(st.lists(RULES | COUNTED, max_size=2)))
    return Terms(tuple(names), rules, positions, sizes, draw(st.booleans()), draw(st.integers(0)))


def computed(call: Terms, backend: str) -> list[Tensor]:
    """The output, the log of the sum where it is asked for, and what all tensors learn."""
    draw = drawing(call.seed % 2**31)
    makers = TRANSFORMS | TURNS | VALUE_TURNS | ADDITIONS
    leaves = [x.requires_grad_() for x in inputs(call.sizes, draw)]
    terms: list[t.Term] = [makers[name](call.sizes, draw) for name in call.names]
    leaves += learned(terms)
    where = {"positions": call.positions, "backend": backend, "return_lse": call.lse}
    found = attend(*leaves[:3], [*terms, *map(t.Mask, call.rules)], **where)
    outs = list(found) if call.lse else [found]
    loss = sum(x.masked_fill(x == -torch.inf, 0.0).sin().sum() for x in outs)
    grads = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    return [x.detach() for x in (*outs, *grads)]


@pytest.mark.unchecked
@fuzzed
@given(calls())
def test_every_set_of_terms_is_the_equation(call: Terms) -> None:
    try:
        expected = computed(call, "reference")
    except PosencError:
        # Such as fewer positions than a table needs, or chunks that overlap.
        return
    size = max(1.0, *(float(x[x.isfinite()].abs().max()) for x in expected if x.isfinite().any()))
    for backend in BACKENDS:
        try:
            found = computed(call, backend)
        except UnsupportedError:
            continue
        for one, wanted in zip(found, expected, strict=True):
            said = f"{backend}: {call}"
            torch.testing.assert_close(one, wanted, rtol=0, atol=1e-9 * size, msg=said)
