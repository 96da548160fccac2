"""Linear attention step by step against the whole sequence."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import posenc as pe
from posenc import CacheError, Positions, PositionsError
from posenc.linear.attention import linear_attention
from posenc.linear.scan import LinearState
from posenc.linear.step import linear_step
from tests.support.linear import ROTARIES, close
from tests.support.oracles import drawing
from tests.support.term_examples import Sizes, inputs

# After padding on the right nothing follows.
MASK = torch.tensor([[0] * 4 + [1] * 5, [1] * 9])
IDS = torch.tensor([[5] * 3 + [7] * 6, [0] * 6 + [2, 2, 1]])
TOKENS: dict[str, dict[str, Tensor]] = {
    "plain": {},
    "padded": {"attention_mask": MASK},
    "packed": {"documents": IDS},
    "packed and padded": {"attention_mask": MASK, "documents": IDS},
    "explicit": {"ids": torch.arange(18).view(2, 9).square() % 17},
}


@given(data=st.data())
def test_steps_of_any_size_equal_the_whole(data: st.DataObject) -> None:
    """Prefill, decoding and everything between: the state is all that is kept."""
    tensors = TOKENS[data.draw(st.sampled_from(list(TOKENS)))]
    rotary = ROTARIES[data.draw(st.sampled_from([n for n in ROTARIES if n != "dynamic"]))]
    chunk = data.draw(st.sampled_from([1, 2, 64]))
    cuts = data.draw(st.sets(st.integers(1, 8)))
    q, k, v = inputs(Sizes(q_len=9, k_len=9), drawing(5))
    whole = Positions.build(9, **tensors, causal=True)
    expected = linear_attention(q, k, v, rotary, positions=whole, form="parallel")
    state, found = None, []
    for start, stop in itertools.pairwise(sorted({0, *cuts, 9})):
        so_far = {name: tensor[:, :stop] for name, tensor in tensors.items()}
        at = Positions.build(stop - start, stop, **so_far, causal=True)
        new = (x[:, :, start:stop] for x in (q, k, v))
        out, state = linear_step(*new, rotary, state, positions=at, chunk=chunk)
        found.append(out)
    real = tensors.get("attention_mask", torch.ones(2, 9)).bool()
    close(torch.cat(found, dim=2).transpose(1, 2)[real], expected.transpose(1, 2)[real])


@pytest.mark.parametrize("name", ["none", "half", "per head"])
def test_positions_count_on_from_the_state(name: str) -> None:
    q, k, v = inputs(Sizes(q_len=9, k_len=9), drawing(6))
    rotary = ROTARIES[name]
    expected = linear_attention(q, k, v, rotary, causal=True)
    state: LinearState | None = None
    sizes = set()
    for i in range(9):
        before = state
        out, state = linear_step(*(x[:, :, i : i + 1] for x in (q, k, v)), rotary, state)
        close(out, expected[:, :, i : i + 1])
        assert state is not before
        assert state.position is not None
        assert state.position.tolist() == [i + 1]
        sizes.add((state.numerator.shape, state.denominator.shape))
    heads = 6 if name == "per head" else 3
    assert sizes == {((2, heads, 10, 4), (2, heads, 10))}


def test_rows_of_different_lengths_decode_together() -> None:
    """Left padding: each row counts on from its own number of tokens."""
    s = Sizes(q_len=9, k_len=9)
    q, k, v = inputs(s, drawing(7))
    rope, mask = pe.Rotary(10), torch.tensor([[0, 0, 0, 1, 1, 1], [1] * 6])
    prompt = Positions.build(attention_mask=mask, causal=True)
    _, state = linear_step(*(x[:, :, :6] for x in (q, k, v)), rope, positions=prompt)
    assert state.position.tolist() == [3, 6]
    found = []
    for i in range(6, 9):
        out, state = linear_step(*(x[:, :, i : i + 1] for x in (q, k, v)), rope, state)
        found.append(out)
    whole = torch.cat((mask, torch.ones(2, 3, dtype=torch.long)), dim=1)
    at = Positions.build(attention_mask=whole, causal=True)
    expected = linear_attention(q, k, v, rope, positions=at, form="parallel")
    close(torch.cat(found, dim=2), expected[:, :, 6:])


def test_padding_on_the_right_leaves_the_state_where_it_was() -> None:
    q, k, v = inputs(Sizes(q_len=9, k_len=9), drawing(8))
    rope, mask = pe.Rotary(10), torch.tensor([[1, 1, 1, 0, 0, 0], [1] * 6])
    state = None
    for part in (slice(0, 4), slice(4, 6)):
        at = Positions.build(
            part.stop - part.start, attention_mask=mask[:, : part.stop], causal=True
        )
        tokens = (x[:, :, part] for x in (q, k, v))
        _, state = linear_step(*tokens, rope, state, positions=at)
    assert state.position.tolist() == [3, 6]
    out, _ = linear_step(*(x[:, :, 6:7] for x in (q, k, v)), rope, state)
    for row, length in ((0, 3), (1, 6)):
        keep = [*range(length), 6]
        alone = (x[row : row + 1, :, keep] for x in (q, k, v))
        expected = linear_attention(*alone, rope, causal=True)
        close(out[row : row + 1], expected[:, :, -1:])


def test_a_packed_prompt_goes_on_with_its_last_document() -> None:
    q, k, v = inputs(Sizes(q_len=9, k_len=9), drawing(9))
    rope, ids = pe.Rotary(10), torch.tensor([0, 0, 0, 1, 1, 1, 1])
    at = Positions.build(documents=ids, causal=True)
    _, state = linear_step(*(x[:, :, :7] for x in (q, k, v)), rope, positions=at)
    assert state.position.tolist() == [4]
    out, state = linear_step(*(x[:, :, 7:] for x in (q, k, v)), rope, state)
    assert (state.document.tolist(), state.position.tolist()) == ([1], [6])
    ids = torch.cat((ids, torch.tensor([1, 1, 4, 4])))
    at = Positions.build(2, documents=ids, causal=True)
    _, begun = linear_step(*(x[:, :, 7:] for x in (q, k, v)), rope, state, positions=at)
    assert (begun.document.tolist(), begun.position.tolist()) == ([4], [2])
    alone = linear_attention(*(x[:, :, 3:] for x in (q, k, v)), rope, causal=True)
    close(out, alone[:, :, 4:])


@pytest.mark.parametrize("chunk", [64, 3, 2])
def test_a_packed_prompt_goes_on_before_its_padding(chunk: int) -> None:
    """Whose number in the mask of packed sequences is none of a document."""
    q, k, v = drawing(0)(3, 2, 2, 10, 8)
    mask = torch.tensor([[1, 1, 1, 2, 2, 0, 0, 0], [0, 0, 1, 1, 2, 2, 2, 2]])
    positions = pe.positions_from({"attention_mask": mask})
    prompt = [x[:, :, :8] for x in (q, k, v)]
    _, state = pe.linear_step(*prompt, pe.Rotary(8), positions=positions, chunk=chunk)
    assert state.position.tolist() == [2, 4]
    out, _ = pe.linear_step(*(x[:, :, 8:] for x in (q, k, v)), pe.Rotary(8), state)
    for row, tokens in enumerate(([3, 4, 8, 9], [4, 5, 6, 7, 8, 9])):
        own = [x[row : row + 1, :, tokens] for x in (q, k, v)]
        expected = pe.linear_attention(*own, pe.Rotary(8), causal=True)
        torch.testing.assert_close(out[row : row + 1], expected[:, :, -2:])


def test_explicit_coordinates_are_asked_for_again() -> None:
    q, k, v = inputs(Sizes(q_len=5, k_len=5), drawing(10))
    rope, ids = pe.Rotary(10), torch.tensor([0.0, 0.5, 3.0, 7.0, 7.25], dtype=torch.float64)
    expected = linear_attention(q, k, v, rope, positions=ids, causal=True)
    first, state = linear_step(*(x[:, :, :3] for x in (q, k, v)), rope, positions=ids[:3])
    tokens = [x[:, :, 3:] for x in (q, k, v)]
    with pytest.raises(PositionsError, match="were explicit"):
        linear_step(*tokens, rope, state)
    for coordinates in (ids[3:], ids):
        second, _ = linear_step(*tokens, rope, state, positions=coordinates)
        close(torch.cat((first, second), dim=2), expected)


def test_angles_that_depend_on_the_length_need_the_final_one() -> None:
    q, k, v = inputs(Sizes(q_len=6, k_len=6), drawing(11))
    dynamic, tokens = ROTARIES["dynamic"], [x[:, :, :4] for x in (q, k, v)]
    with pytest.raises(CacheError, match=r"depend on the length.*got an extent of None"):
        linear_step(*tokens, dynamic)
    first, state = linear_step(
        *tokens, dynamic, positions=Positions.build(4, causal=True, extent=6)
    )
    rest = [x[:, :, 4:] for x in (q, k, v)]
    second, _ = linear_step(*rest, dynamic, state)
    close(torch.cat((first, second), dim=2), linear_attention(q, k, v, dynamic, causal=True))
    longer = Positions.build(2, 6, causal=True, extent=9)
    with pytest.raises(CacheError, match="an extent of 9, and the state was made for 6"):
        linear_step(*rest, dynamic, state, positions=longer)


@pytest.mark.graph
def test_one_graph_serves_all_steps() -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    q, k, v = inputs(Sizes(q_len=9, k_len=9), drawing(22))
    rope = pe.Rotary(10)
    expected = linear_attention(q, k, v, rope, causal=True)
    torch._dynamo.reset()
    step = torch.compile(linear_step, fullgraph=True, backend=backend)
    _, state = linear_step(*(x[:, :, :3] for x in (q, k, v)), rope)
    for i in range(3, 9):
        out, state = step(*(x[:, :, i : i + 1] for x in (q, k, v)), rope, state)
        close(out, expected[:, :, i : i + 1])
    assert len(graphs) == 1
    whole = torch.compile(linear_attention, fullgraph=True, backend="aot_eager")
    close(whole(q, k, v, rope, causal=True, chunk=4), expected)
