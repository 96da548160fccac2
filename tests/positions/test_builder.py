"""Positions from what is at hand, against transformers and tokens alone."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import posenc as pe
from posenc import Cache, CacheError, Encoding, Positions, Rotary
from posenc.encodings import members
from posenc.testing.fixtures import causalities, model_for, require_close, tokens_for
from tests.support.oracles import drawing

EXAMPLES = [encoding for member in members().values() for encoding in member.examples()]

Layout = tuple[list[list[int]], list[int], int]


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Lengths of the documents of each row, where its first begins, and how long rows are."""
    lengths = st.lists(st.integers(1, 5), min_size=1, max_size=3)
    rows = draw(st.lists(lengths, min_size=1, max_size=3))
    length = max(map(sum, rows)) + draw(st.integers(0, 2))
    return rows, [draw(st.integers(0, length - sum(row))) for row in rows], length


def spread(layout: Layout) -> tuple[Tensor, Tensor, list[tuple[int, slice]]]:
    """Attention mask and documents of a layout, and the row and columns of each document."""
    rows, starts, length = layout
    mask, documents = torch.zeros(2, len(rows), length, dtype=torch.int64)
    places = []
    for row, (lengths, at) in enumerate(zip(rows, starts, strict=True)):
        for number, count in enumerate(lengths):
            part = slice(at, at + count)
            mask[row, part], documents[row, part] = 1, number
            places.append((row, part))
            at += count
    return mask, documents, places


# Padding on the left, on the right and on both sides, single tokens, a full row.
ROWS: Layout = ([[3, 1, 1], [5], [1, 3], [3, 1, 3]], [0, 2, 1, 0], 7)


@pytest.mark.parametrize("encoding", EXAMPLES, ids=repr)
def test_padding_and_packing_change_no_output(encoding: Encoding) -> None:
    mask, documents, places = spread(ROWS)
    tokens = tokens_for(mask.shape[1], batch=len(mask))
    for causal in causalities(encoding):
        model = model_for(encoding, causal=causal)
        at = Positions.build(attention_mask=mask, documents=documents, causal=causal)
        together = model(tokens, at)
        for length in {part.stop - part.start for _, part in places}:
            same = [place for place in places if place[1].stop - place[1].start == length]
            alone = model(torch.stack([tokens[place] for place in same]))
            packed = torch.stack([together[place] for place in same])
            require_close(packed, alone, 1e-9, f"documents of {length} tokens")


@pytest.mark.parametrize("encoding", EXAMPLES, ids=repr)
def test_chunks_change_no_output(encoding: Encoding) -> None:
    """Prefilled in chunks, padded and packed, through a cache."""
    model = model_for(encoding)
    mask, documents, places = spread(ROWS)
    length = mask.shape[1]
    tokens = tokens_for(length, batch=len(mask))
    # What depends on the length must know the final one from the first chunk on.
    said = {"causal": True, "extent": length}
    whole = model(tokens, Positions.build(attention_mask=mask, documents=documents, **said))
    for policy in ("rotated", "raw"):
        caches, chunks = [Cache(policy, length=length) for _ in model.blocks], []
        for start, end in itertools.pairwise([0, 2, 6, length]):
            so_far = {"attention_mask": mask[:, :end], "documents": documents[:, :end]}
            at = Positions.build(end - start, past=start, **so_far, **said)
            try:
                chunks.append(model(tokens[:, start:end], at, caches))
            except CacheError:
                assert policy == "rotated"
                break
        else:
            got = torch.cat(chunks, dim=1)
            for place in places:
                require_close(got[place], whole[place], 1e-9, f"{policy}, {place}")


MANY = [Rotary(8), pe.ALiBi(4), pe.FIRE(4).double(), pe.SlidingWindow(3)]


@settings(max_examples=30)
@given(layout=layouts(), causal=st.booleans())
def test_any_layout_is_each_document_alone(layout: Layout, causal: bool) -> None:
    """What holds of every encoding above holds of every layout."""
    mask, documents, places = spread(layout)
    q, k, v = drawing(8)(3, len(mask), 4, mask.shape[1], 8)
    at = Positions.build(attention_mask=mask, documents=documents, causal=causal)
    together = pe.attend(q, k, v, MANY, positions=at)
    for row, part in places:
        own = [x[row : row + 1, :, part] for x in (q, k, v)]
        alone = pe.attend(*own, MANY, causal=causal)
        torch.testing.assert_close(together[row : row + 1, :, part], alone, rtol=0, atol=1e-12)


@settings(max_examples=30)
@given(layout=layouts(), policy=st.sampled_from(["rotated", "raw"]), cuts=st.data())
def test_any_layout_in_any_chunks_is_the_whole(
    layout: Layout, policy: Any, cuts: st.DataObject
) -> None:
    mask, documents, places = spread(layout)
    length = mask.shape[1]
    q, k, v = drawing(9)(3, len(mask), 4, length, 8)
    said = {"causal": True, "extent": length}
    at = Positions.build(attention_mask=mask, documents=documents, **said)
    whole = pe.attend(q, k, v, MANY, positions=at)
    cache, chunks = Cache(policy, length=length), []
    ends = sorted({*cuts.draw(st.lists(st.integers(1, length), max_size=3)), length})
    for start, end in itertools.pairwise([0, *ends]):
        so_far = {"attention_mask": mask[:, :end], "documents": documents[:, :end]}
        at = Positions.build(end - start, past=start, **so_far, **said)
        new = (x[:, :, start:end] for x in (q, k, v))
        chunks.append(pe.attend(*new, MANY, positions=at, cache=cache))
    got = torch.cat(chunks, dim=2)
    for row, part in places:
        torch.testing.assert_close(got[row, :, part], whole[row, :, part], rtol=0, atol=1e-12)


# Checkpoints that do not count from 0.


def test_roberta_starts_behind_its_padding_index() -> None:
    module = pytest.importorskip("transformers.models.roberta.modeling_roberta")
    padding_idx = 1
    tokens = torch.tensor([[0, 9, 8, 2, 1, 1], [1, 1, 1, 0, 7, 2], [5, 5, 5, 5, 5, 5]])
    theirs = module.RobertaEmbeddings.create_position_ids_from_input_ids(tokens, padding_idx)
    real = tokens != padding_idx
    ours = Positions.build(attention_mask=real, start=padding_idx + 1)
    assert torch.equal(ours.keys.position[real], theirs[real])
    assert ours.unit_step
    assert ours.bound == 8
    assert ours.lengths()[1][:, -1].tolist()[1:] == [5, 8]
    whole = Positions.build(6, start=padding_idx + 1)
    assert torch.equal(whole.keys.position, ours.keys.position[2])
    assert (whole.bound, whole.in_order) == (8, True)
    assert whole.lengths()[0].tolist() == [[8] * 6]


@pytest.mark.parametrize("past", [0, 4])
def test_opt_and_bart_start_at_two(past: int) -> None:
    opt = pytest.importorskip("transformers.models.opt.modeling_opt")
    bart = pytest.importorskip("transformers.models.bart.modeling_bart")
    draw = drawing(3)
    weight = draw(12 + 2, 8)
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]])
    table = pe.Learned.from_rows(weight)

    theirs = opt.OPTLearnedPositionalEmbedding(12, 8)
    theirs.weight.data = weight
    at = Positions.build(attention_mask=mask, past=past, start=2)
    new = mask[:, past:].bool()
    expected = theirs(mask, past)
    assert torch.equal(table.embed(torch.zeros(2, 7 - past, 8).double(), at)[new], expected[new])

    theirs = bart.BartLearnedPositionalEmbedding(12, 8)
    theirs.weight.data = weight
    at = Positions.build(7 - past, past=past, start=2)
    expected = theirs(torch.zeros(2, 7 - past), past)
    assert torch.equal(table.embed(torch.zeros(2, 7 - past, 8).double(), at), expected)


# Packed documents as flash-attn says them.


def test_lengths_numbers_and_cumulative_lengths_say_the_same() -> None:
    said = [
        {"lengths": [3, 1, 2]},
        {"lengths": torch.tensor([3, 1, 2])},
        {"cu_seqlens": [0, 3, 4, 6]},
        {"cu_seqlens": torch.tensor([0, 3, 4, 6], dtype=torch.int32)},
        {"documents": torch.tensor([0, 0, 0, 1, 2, 2])},
        {"documents": torch.tensor([7, 7, 7, -1, 3, 3])},
    ]
    for each in said:
        for q_len in (None, 4):
            at = Positions.build(q_len, causal=True, **each)
            assert at.keys.position.tolist() == [0, 1, 2, 0, 0, 1]
            assert at.queries.position.tolist() == [0, 1, 2, 0, 0, 1][-(q_len or 6) :]
            same = at.keys.document[:, None] == at.keys.document
            assert torch.equal(same, torch.block_diag(*(torch.ones(n, n) for n in (3, 1, 2))) > 0)
            assert at.lengths()[1].tolist() == [[3, 3, 3, 1, 2, 2]]


def test_documents_without_tokens_are_nobody() -> None:
    at = Positions.build(cu_seqlens=[0, 0, 2, 2, 3, 3])
    assert at.keys.position.tolist() == [0, 1, 0]
    assert at.keys.document.tolist() == [1, 1, 3]


def test_what_padding_is_numbered_does_not_matter() -> None:
    mask = torch.tensor([[0, 1, 1, 1, 0]])
    for pad in (0, 1, 9):
        at = Positions.build(
            attention_mask=mask, documents=torch.tensor([[pad, 9, 9, 4, pad]]), causal=True
        )
        assert at.keys.position[0, 1:4].tolist() == [0, 1, 0]


SHARES = st.lists(
    st.integers(0, 4).flatmap(lambda k: st.tuples(st.integers(0, k), st.just(k))),
    min_size=1,
    max_size=4,
).filter(lambda shares: any(q for q, _ in shares))


@settings(max_examples=30)
@given(shares=SHARES, causal=st.booleans())
def test_varlen_is_each_document_alone(shares: list[tuple[int, int]], causal: bool) -> None:
    q_lens, k_lens = zip(*shares, strict=True)
    cu_q, cu_k = (torch.tensor([0, *itertools.accumulate(lens)]) for lens in (q_lens, k_lens))
    at = Positions.varlen(cu_q.int(), cu_k, causal=causal)
    draw = drawing(4)
    q, k, v = draw(1, 4, at.q_len, 8), draw(1, 2, at.k_len, 8), draw(1, 2, at.k_len, 8)
    encoding = [Rotary(8), pe.ALiBi(4), pe.SlidingWindow(3)]
    together = pe.attend(q, k, v, encoding, positions=at)
    for n, (q_len, k_len) in enumerate(shares):
        if not q_len:
            continue
        rows, columns = slice(cu_q[n], cu_q[n + 1]), slice(cu_k[n], cu_k[n + 1])
        own = Positions.build(q_len, k_len, causal=causal)
        alone = pe.attend(
            q[:, :, rows], k[:, :, columns], v[:, :, columns], encoding, positions=own
        )
        torch.testing.assert_close(together[:, :, rows], alone, rtol=0, atol=1e-12)
        assert at.lengths()[0][0, rows].eq(k_len).all()
        assert at.lengths()[1][0, columns].eq(k_len).all()
