"""Every way of making Positions against transformers, the papers' sentences and tokens alone."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils import _pytree as pytree

import posenc as pe
from posenc import Cache, CacheError, Encoding, Positions, PositionsError, Rotary
from posenc.encodings import members
from posenc.testing.probe import causalities, model_for, require_close, tokens_for
from tests.oracles import drawing

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


# What other people say of the same tokens.


def qwen(version: str, tokens_per_second: int = 4) -> Any:
    """A model of the Qwen family that only counts: its weights are never made."""
    path = f"transformers.models.{version}.modeling_{version}"
    module = pytest.importorskip(path)
    kind = {"qwen2_vl": "Qwen2VLModel", "qwen2_5_vl": "Qwen2_5_VLModel", "qwen3_vl": "Qwen3VLModel"}
    model = object.__new__(getattr(module, kind[version]))
    vision = SimpleNamespace(spatial_merge_size=2, tokens_per_second=tokens_per_second)
    object.__setattr__(model, "config", SimpleNamespace(vision_config=vision))
    return model


# Each row: a number of words, or the grid (time, height, width) of patches of an image or a video.
Piece = tuple[str, tuple[int, int, int]]
GRIDS = st.tuples(st.just(1), st.sampled_from([2, 4, 6]), st.sampled_from([2, 4, 6]))
CLIPS = st.tuples(st.integers(1, 3), st.sampled_from([6, 8]), st.sampled_from([2, 6]))


@st.composite
def scenes(draw: st.DrawFn) -> list[list[Piece]]:
    """Rows of words and pictures by turns, as a processor writes them."""
    rows = []
    for _ in range(draw(st.integers(1, 3))):
        row: list[Piece] = []
        for _ in range(draw(st.integers(0, 3))):
            row.append(("text", (draw(st.integers(1, 3)), 1, 1)))
            grid = draw(
                st.one_of(GRIDS.map(lambda g: ("image", g)), CLIPS.map(lambda g: ("video", g)))
            )
            row.append(grid)
        row.append(("text", (draw(st.integers(1, 3)), 1, 1)))
        rows.append(row)
    return rows


def told(rows: list[list[Piece]], left: bool, apart: bool = False) -> dict[str, Tensor | None]:
    """token_types, grids and attention_mask of a batch, as transformers' processors give them."""
    types, grids = [], {"image": [], "video": []}
    for row in rows:
        types.append([])
        for kind, (frames, height, width) in row:
            number = ("text", "image", "video").index(kind)
            if kind != "text":
                grids[kind].append((frames, height, width))
            count = frames if kind == "text" else height * width // 4
            for _ in range(1 if kind == "text" else frames):
                # Before each frame of a video stands its timestamp, where they are apart.
                types[-1] += [0] * (apart and kind == "video") + [number] * count
    length = max(map(len, types))
    gaps = [length - len(row) for row in types]
    pad = [(gap, 0) if left else (0, gap) for gap in gaps]
    return {
        "token_types": torch.tensor(
            [[0] * a + row + [0] * b for (a, b), row in zip(pad, types, strict=True)]
        ),
        "attention_mask": torch.tensor(
            [[0] * a + [1] * len(row) + [0] * b for (a, b), row in zip(pad, types, strict=True)]
        ),
        "images": torch.tensor(grids["image"]) if grids["image"] else None,
        "videos": torch.tensor(grids["video"]) if grids["video"] else None,
    }


@settings(max_examples=25)
@given(rows=scenes(), left=st.booleans(), version=st.sampled_from(["qwen2_vl", "qwen2_5_vl"]))
def test_mrope_counts_as_qwen2_vl(rows: list[list[Piece]], left: bool, version: str) -> None:
    said = told(rows, left)
    seconds = 0.5
    call = {"second_per_grid_ts": [seconds] * 20} if version == "qwen2_5_vl" else {}
    theirs, deltas = qwen(version).get_rope_index(
        said["token_types"],
        said["token_types"],
        said["images"],
        said["videos"],
        attention_mask=said["attention_mask"],
        **call,
    )
    step = 4 * seconds if version == "qwen2_5_vl" else 1.0
    ours = Positions.mrope(**said, merge=2, frame_step=step, text_after="side")
    real = said["attention_mask"].bool()
    assert torch.equal(ours.k[real], theirs.movedim(0, -1)[real])
    # What comes next in decoding is one behind the text, wherever its row has got to.
    length = ours.lengths()[1].masked_fill(~real, 0).amax(1)
    assert torch.equal(length, deltas[:, 0] + real.sum(1))


@settings(max_examples=15)
@given(rows=scenes(), left=st.booleans())
def test_mrope_counts_as_qwen3_vl(rows: list[list[Piece]], left: bool) -> None:
    said = told(rows, left, apart=True)
    theirs, _ = qwen("qwen3_vl").get_rope_index(
        said["token_types"],
        said["token_types"],
        said["images"],
        said["videos"],
        attention_mask=said["attention_mask"],
    )
    real = said["attention_mask"].bool()
    for text_after in ("largest", "side"):
        # Of single frames the larger side is the largest position.
        ours = Positions.mrope(**said, merge=2, frames_apart=True, text_after=text_after)
        assert torch.equal(ours.k[real], theirs.movedim(0, -1)[real])


def test_text_after_a_long_video_has_times_of_its_own() -> None:
    """transformers 5 goes on after the larger side, in the midst of the video's times."""
    types = torch.tensor([[0] + [2] * 5 + [0, 0]])
    clip = torch.tensor([[5, 2, 2]])
    theirs, _ = qwen("qwen2_vl").get_rope_index(types, types, None, clip)
    assert theirs[0, 0].tolist() == [0, 1, 2, 3, 4, 5, 2, 3]
    ours = Positions.mrope(types, videos=clip, merge=2)
    assert ours.k[0, :, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert ours.k[0, :, 1].tolist() == [0, 1, 1, 1, 1, 1, 6, 7]


def test_an_image_takes_the_larger_side_of_its_grid() -> None:
    types = torch.tensor([[0, 0, *[1] * 6, 0, 0]])
    at = Positions.mrope(types, torch.tensor([[1, 2, 3]]), causal=True)
    assert at.k[0].tolist() == [
        [0, 0, 0],
        [1, 1, 1],
        *([2, 2 + row, 2 + column] for row in range(2) for column in range(3)),
        [5, 5, 5],
        [6, 6, 6],
    ]
    assert (at.unit_step, at.bound) == (False, 7)
    assert at.orders()[1].tolist() == list(range(10))
    # Two images without a word between them are two.
    at = Positions.mrope(types.clamp(min=1), torch.tensor([[1, 2, 3], [1, 2, 2]]))
    assert at.k[0, :, 2].tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 3, 4]


def test_mrope_in_chunks_is_mrope() -> None:
    types = torch.tensor([[0, 0, *[1] * 6, 0, 0]])
    grid = torch.tensor([[1, 2, 3]])
    whole = Positions.mrope(types, grid, causal=True)
    last = Positions.mrope(types, grid, q_len=4, causal=True)
    assert torch.equal(last.q, whole.q[:, -4:])
    assert torch.equal(last.k, whole.k)


def test_roberta_starts_behind_its_padding_index() -> None:
    module = pytest.importorskip("transformers.models.roberta.modeling_roberta")
    padding_idx = 1
    tokens = torch.tensor([[0, 9, 8, 2, 1, 1], [1, 1, 1, 0, 7, 2], [5, 5, 5, 5, 5, 5]])
    theirs = module.RobertaEmbeddings.create_position_ids_from_input_ids(tokens, padding_idx)
    real = tokens != padding_idx
    ours = Positions.build(attention_mask=real, start=padding_idx + 1)
    assert torch.equal(ours.k[real], theirs[real])
    assert ours.unit_step
    assert ours.bound == 8
    assert ours.lengths()[1][:, -1].tolist()[1:] == [5, 8]
    whole = Positions.build(6, start=padding_idx + 1)
    assert torch.equal(whole.k, ours.k[2])
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
            assert at.k.tolist() == [0, 1, 2, 0, 0, 1]
            assert at.q.tolist() == [0, 1, 2, 0, 0, 1][-(q_len or 6) :]
            same = at.k_document[:, None] == at.k_document
            assert torch.equal(same, torch.block_diag(*(torch.ones(n, n) for n in (3, 1, 2))) > 0)
            assert at.lengths()[1].tolist() == [[3, 3, 3, 1, 2, 2]]


def test_documents_without_tokens_are_nobody() -> None:
    at = Positions.build(cu_seqlens=[0, 0, 2, 2, 3, 3])
    assert at.k.tolist() == [0, 1, 0]
    assert at.k_document.tolist() == [1, 1, 3]


def test_what_padding_is_numbered_does_not_matter() -> None:
    mask = torch.tensor([[0, 1, 1, 1, 0]])
    for pad in (0, 1, 9):
        at = Positions.build(
            attention_mask=mask, documents=torch.tensor([[pad, 9, 9, 4, pad]]), causal=True
        )
        assert at.k[0, 1:4].tolist() == [0, 1, 0]


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


# Caches: growing, of fixed size, rolling.


@given(past=st.integers(0, 6), new=st.integers(1, 4))
def test_past_tokens_are_in_front(past: int, new: int) -> None:
    for at in (
        Positions.build(new, past=past, causal=True),
        Positions.build(past=past, ids=torch.arange(past + new), causal=True),
        Positions.build(new, past + new, past=past, causal=True),
    ):
        assert (at.q_len, at.k_len) == (new, past + new)
        assert at.q.tolist() == list(range(past, past + new))


@settings(max_examples=30)
@given(pasts=st.lists(st.integers(0, 5), min_size=1, max_size=3), new=st.integers(1, 3))
def test_slots_hold_each_row_as_far_as_it_has_got(pasts: list[int], new: int) -> None:
    slots, batch = 9, len(pasts)
    draw = drawing(5)
    q, k, v = draw(batch, 4, new, 8), draw(batch, 2, slots, 8), draw(batch, 2, slots, 8)
    encoding = [Rotary(8), pe.T5Bias(4).double(), pe.FIRE(4).double()]
    at = Positions.static(new, slots, torch.tensor(pasts))
    assert at.unit_step
    together = pe.attend(q, k, v, encoding, positions=at)
    for row, past in enumerate(pasts):
        end, one = past + new, slice(row, row + 1)
        own = Positions.build(new, past=past, causal=True)
        alone = pe.attend(q[one], k[one, :, :end], v[one, :, :end], encoding, positions=own)
        torch.testing.assert_close(together[one], alone, rtol=0, atol=1e-12)
    shared = Positions.static(new, slots, pasts[0])
    assert torch.equal(shared.q[0], at.q[0])
    assert torch.equal(shared.k_valid[0], at.k_valid[0])


ROLLED = st.tuples(st.integers(0, 12), st.integers(1, 3), st.integers(1, 4), st.integers(0, 3))


def held(past: int, new: int, window: int, sinks: int) -> list[int]:
    """The tokens that a cache of sinks and a window still has, one by one."""
    nearest = range(past - window + 1, past + new)
    return [n for n in range(past + new) if n < sinks or n in nearest]


@settings(max_examples=30)
@given(sizes=ROLLED)
def test_a_rolling_cache_sees_what_the_window_sees(sizes: tuple[int, int, int, int]) -> None:
    past, new, window, sinks = sizes
    kept = held(past, new, window, sinks)
    at = Positions.rolling(new, past=past, window=window, sinks=sinks)
    assert at.k.tolist() == at.orders()[1].tolist() == kept
    assert at.q.tolist() == list(range(past, past + new))
    assert (at.unit_step, at.bound) == (True, past + new)
    draw = drawing(6)
    q, k, v = (draw(1, 4, past + new, 8) for _ in range(3))
    masks = [pe.SlidingWindow(window), *([pe.Sinks(sinks)] if sinks else [])]
    encoding = [Rotary(8), pe.ALiBi(4), *masks]
    whole = pe.attend(q, k, v, encoding, causal=True)[:, :, past:]
    rolled = pe.attend(q[:, :, past:], k[:, :, kept], v[:, :, kept], encoding, positions=at)
    torch.testing.assert_close(rolled, whole, rtol=0, atol=1e-12)
    if new == 1:
        bare = pe.attend(q[:, :, past:], k[:, :, kept], v[:, :, kept], encoding[:2], positions=at)
        torch.testing.assert_close(bare, whole, rtol=0, atol=1e-12)


@settings(max_examples=30)
@given(past=st.integers(0, 12), window=st.integers(1, 4), sinks=st.integers(1, 3))
def test_a_renumbered_cache_is_streaming_llm(past: int, window: int, sinks: int) -> None:
    """The same as `Sinks`, which holds all keys and moves the query by what a cache drops."""
    kept = held(past, 1, window, sinks)
    at = Positions.rolling(past=past, window=window, sinks=sinks, renumbered=True)
    assert at.k.tolist() == list(range(len(kept)))
    assert at.orders()[1].tolist() == kept
    assert at.unit_step == (len(kept) == past + 1)
    assert at.lengths()[0].tolist() == [[len(kept)]]
    # They never grow, so that a table of as many rows serves for ever.
    assert at.bound == len(kept)
    draw = drawing(7)
    q, k, v = draw(1, 4, 1, 8), draw(1, 2, past + 1, 8), draw(1, 2, past + 1, 8)
    streaming = pe.Sinks(sinks, window=window, rotary=Rotary(8))
    expected = pe.attend(q, k, v, streaming, causal=True)
    actual = pe.attend(q, k[:, :, kept], v[:, :, kept], Rotary(8), positions=at)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


# Positions that train a short input for a long one.


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(1, 8), min_size=1, max_size=3),
    more=st.integers(0, 20),
    chunks=st.integers(1, 3),
    left=st.booleans(),
    seed=st.integers(0, 99),
)
def test_drawn_positions_rise_below_the_longest(
    lengths: list[int], more: int, chunks: int, left: bool, seed: int
) -> None:
    length = max(lengths)
    index = torch.arange(length)
    mask = torch.stack([(index >= length - n if left else index < n) for n in lengths])
    longest, chunks = length + more, min(chunks, length)
    said: dict[str, Any] = {"longest": longest, "attention_mask": mask, "causal": True}
    drawn = {}
    for draws in ("first", "again", "later"):
        generator = torch.Generator().manual_seed(seed + (draws == "later"))
        drawn[draws] = [
            Positions.random(**said, generator=generator),
            Positions.skipping(**said, chunks=chunks, generator=generator),
        ]
    for first, again in zip(drawn["first"], drawn["again"], strict=True):
        assert torch.equal(first.k, again.k)
    for at, skips in zip(drawn["first"], (length, chunks), strict=True):
        assert (at.bound, at.unit_step, at.batch) == (longest, False, len(lengths))
        for row, real in zip(at.k, mask, strict=True):
            own = row[real].tolist()
            assert own == sorted(set(own))
            assert own[0] >= 0
            assert own[-1] < longest
            assert sum(step > 1 for step in torch.tensor(own).diff().tolist()) <= skips - 1
        assert torch.equal(at.lengths()[1][mask], length_by_hand(at.k, mask)[mask])
        assert torch.equal(at.orders()[1], Positions.build(attention_mask=mask).k)
        # What is hidden of padding is what a mask hides.
        assert torch.equal(at.k_valid, mask)
    starts = drawn["first"][1].k.masked_fill(~mask, longest).amin(1)
    assert starts.eq(0).all()


def length_by_hand(k: Tensor, mask: Tensor) -> Tensor:
    return (k.masked_fill(~mask, -1).amax(1, keepdim=True) + 1).expand(k.shape)


def test_every_subset_is_as_likely() -> None:
    generator = torch.Generator().manual_seed(0)
    at = Positions.random(2, longest=4, batch=6_000, generator=generator)
    pairs, counts = at.k.unique(dim=0, return_counts=True)
    assert pairs.tolist() == [list(pair) for pair in itertools.combinations(range(4), 2)]
    # Six outcomes of a thousand each; the deviation of a count is 29.
    assert (counts - 1_000).abs().max() < 150
    mask = torch.tensor([[1, 0, 0, 0], [0, 0, 1, 1]]).repeat(3_000, 1)
    at = Positions.random(longest=4, attention_mask=mask, generator=generator)
    first = at.k[::2, 0].bincount()
    assert (first - 750).abs().max() < 130
    pairs, counts = at.k[1::2, 2:].unique(dim=0, return_counts=True)
    assert len(pairs) == 6
    assert (counts - 500).abs().max() < 110


def test_skips_are_drawn_as_the_paper_says() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = 8_000
    at = Positions.skipping(3, longest=6, chunks=3, batch=rows, generator=generator)
    skips = (at.k - torch.arange(3)).tolist()
    assert {row[0] for row in skips} == {0}
    # u[1] is uniform over 0 .. 3, u[2] over u[1] .. 3.
    for one in range(4):
        of_one = [row[2] for row in skips if row[1] == one]
        assert abs(len(of_one) - rows / 4) < 200
        for two in range(one, 4):
            assert abs(of_one.count(two) - len(of_one) / (4 - one)) < 150
    # Two chunks of four tokens begin anew at one of the three later ones.
    at = Positions.skipping(4, longest=1_000, batch=rows, generator=generator)
    jumps = (at.k.diff(dim=-1) > 1).sum(0)
    assert (jumps - rows / 3).abs().max() < 250


def test_one_draw_serves_all_rows() -> None:
    for draw in (Positions.random, Positions.skipping):
        assert draw(5, longest=9).k.shape == (5,)
        assert draw(5, longest=9, batch=1).k.shape == (1, 5)
        assert draw(5, longest=5).k.tolist() == [0, 1, 2, 3, 4]
        # A table of `longest` rows holds them.
        assert pe.Learned(4, 9).embed(torch.zeros(1, 5, 4), draw(5, longest=9)).shape == (1, 5, 4)


# Errors.

TYPES = torch.tensor([[0, 1, 1, 1, 1, 0]])


def on_meta(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64, device="meta")


BAD = {
    "lengths and cumulative lengths": (
        lambda: Positions.build(lengths=[2], cu_seqlens=[0, 2]),
        [r"Positions\.build takes lengths or cu_seqlens, not both"],
    ),
    "a fractional length": (
        lambda: Positions.build(lengths=[2, 1.5]),
        [r"lengths=\[2\.0, 1\.5\]", "whole number >= 1 per document"],
    ),
    "lengths of padded rows": (
        lambda: Positions.build(lengths=torch.tensor([[2], [3]])),
        [r"lengths=\[\[2\], \[3\]\]", r"\(2, 1\)", r"attention_mask=torch\.arange\(k_len\)"],
    ),
    "a length of nothing": (
        lambda: Positions.build(lengths=torch.tensor([2, 0])),
        [r"lengths=\[2, 0\]", ">= 1"],
    ),
    "cumulative lengths that start late": (
        lambda: Positions.build(cu_seqlens=[3, 5]),
        [r"cu_seqlens=\[3, 5\]", "start at 3, not at 0", r"lengths=\.\.\."],
    ),
    "cumulative lengths that fall": (
        lambda: Positions.build(cu_seqlens=[0, 5, 3]),
        [r"cu_seqlens=\[0, 5, 3\]", "not sorted"],
    ),
    "cumulative lengths of other tokens": (
        lambda: Positions.build(9, cu_seqlens=torch.tensor([0, 5, 8])),
        ["9 queries", "8 keys"],
    ),
    "cumulative lengths beside a mask": (
        lambda: Positions.build(cu_seqlens=[0, 5], attention_mask=torch.ones(1, 4)),
        ["4 keys, but cu_seqlens", "describes 5 tokens"],
    ),
    "fractional cumulative lengths": (
        lambda: Positions.build(cu_seqlens=torch.tensor([0.0, 5.0])),
        ["cu_seqlens", "torch.float32", r"such as \[0, 3, 8\]"],
    ),
    "a single boundary": (
        lambda: Positions.build(cu_seqlens=[0]),
        [r"shape \(1,\)", "documents \\+ 1"],
    ),
    "fractional documents": (
        lambda: Positions.build(documents=torch.zeros(3)),
        ["documents", "torch.float32", "int64"],
    ),
    "documents of three dimensions": (
        lambda: Positions.build(documents=torch.zeros(1, 3, 2).long()),
        [r"documents=\.\.\.", r"\(1, 3, 2\)", r"\(b, k_len\) is needed"],
    ),
    "an additive mask": (
        lambda: Positions.build(attention_mask=torch.tensor([[0.0, -torch.inf]])),
        ["negative values", "added to scores", "nonzero for real tokens"],
    ),
    "a mask of scores": (
        lambda: Positions.build(attention_mask=torch.ones(2, 1, 4, 4)),
        [r"\(2, 1, 4, 4\)", r"\(b, k_len\) is needed"],
    ),
    "decoding after padding on the right": (
        lambda: Positions.build(1, attention_mask=torch.tensor([[1, 1, 0, 1]])),
        ["row 0 has a hole", "pad it on the left", r"Positions\.static"],
    ),
    "two batches": (
        lambda: Positions.build(attention_mask=torch.ones(2, 3), ids=torch.zeros(4, 3).long()),
        [r"attention_mask of shape \(2, 3\) and ids of shape \(4, 3\)", "batch"],
    ),
    "two devices": (
        lambda: Positions.build(attention_mask=torch.ones(2, 3), documents=on_meta(2, 3)),
        ["attention_mask on cpu, documents on meta", "one device"],
    ),
    "ids that are a mask": (
        lambda: Positions.build(ids=torch.ones(1, 3) > 0),
        ["torch.bool", r"attention_mask=\.\.\."],
    ),
    "ids of four dimensions": (
        lambda: Positions.build(ids=torch.zeros(1, 3, 2, 2)),
        [r"\(1, 3, 2, 2\)", r"\(b, t, axes\)"],
    ),
    "ids that start later": (
        lambda: Positions.build(ids=torch.arange(3), start=2),
        ["start=2", "add 2 to them"],
    ),
    "documents upon a start": (
        lambda: pe.lower(pe.Documents(torch.tensor([0, 1])), Positions.build(2, start=2)),
        ["Documents", r"Positions\.build\(documents="],
    ),
    "a start before zero": (lambda: Positions.build(3, start=-1), ["start=-1", ">= 0"]),
    "an extent of fewer tokens": (
        lambda: Positions.build(3, start=2, extent=4),
        ["extent=4", "largest position is 4", "at least 5"],
    ),
    "a past before zero": (lambda: Positions.build(3, past=-1), ["past=-1", ">= 0"]),
    "a past that does not add up": (
        lambda: Positions.build(3, 5, past=1),
        ["past=1", "3 queries behind 1 tokens do not make 5 keys", "k_len = past \\+ q_len"],
    ),
    "a past alone": (lambda: Positions.build(past=1), ["past=1", "two of q_len, k_len and past"]),
    "a past of all tokens": (
        lambda: Positions.build(past=3, attention_mask=torch.ones(1, 3)),
        ["0 queries and 3 keys", "at least one token"],
    ),
    "varlen of more queries": (
        lambda: Positions.varlen([0, 3, 4], [0, 2, 6]),
        [r"Positions\.varlen", "document 0 has 3 queries but only 2 keys"],
    ),
    "varlen of other documents": (
        lambda: Positions.varlen([0, 1], [0, 2, 6]),
        ["1 documents of queries", "2 of keys"],
    ),
    "varlen that is not sorted": (
        lambda: Positions.varlen([0, 1, 2], [0, 6, 3]),
        [r"Positions\.varlen\(cu_seqlens_k=\[0, 6, 3\]\)", "not sorted"],
    ),
    "varlen of no queries": (
        lambda: Positions.varlen([0, 0], [0, 2]),
        ["0 queries and 2 keys", "at least one token"],
    ),
    "varlen that ends elsewhere": (
        lambda: Positions.varlen([0, 1], [0, 2], k_len=3),
        ["k_len=3", "cu_seqlens_k end at 2"],
    ),
    "slots that are full": (
        lambda: Positions.static(2, 8, torch.tensor([3, 7])),
        [r"Positions\.static\(2, slots=8", "past goes from 3 to 7", "from 0 to 6"],
    ),
    "slots before the first": (
        lambda: Positions.static(2, 8, -1),
        ["past goes from -1", "from 0 to 6"],
    ),
    "more queries than slots": (lambda: Positions.static(9, 8, 0), ["9 queries but only 8 keys"]),
    "a fractional past": (
        lambda: Positions.static(2, 8, torch.tensor([1.0])),
        ["torch.float32", r"\(b,\) for each"],
    ),
    "past on meta": (lambda: Positions.static(1, 8, on_meta(2)), ["past=", "meta device"]),
    "a mask on meta": (
        lambda: Positions.build(attention_mask=on_meta(2, 3)),
        [r"Positions\.build\(attention_mask=\.\.\.\)", "meta device", "no values"],
    ),
    "lengths on meta": (lambda: Positions.build(lengths=on_meta(2)), ["lengths", "meta device"]),
    "cumulative lengths on meta": (
        lambda: Positions.varlen(on_meta(2), [0, 1]),
        [r"Positions\.varlen\(cu_seqlens_q", "meta device"],
    ),
    "token types on meta": (lambda: Positions.mrope(on_meta(1, 3)), ["token_types", "meta"]),
    "a mask as lengths": (
        lambda: Positions.build(lengths=torch.ones(3) > 0),
        [r"lengths=\[True, True, True\]", "whole number >= 1"],
    ),
    "a mask of no tokens": (
        lambda: Positions.random(longest=9, attention_mask=torch.ones(2, 0)),
        [r"\(2, 0\)", r"\(b, k_len\) is needed"],
    ),
    "an id alone": (lambda: Positions.build(ids=torch.tensor(3)), [r"\(\)", r"\(b, t, axes\)"]),
    "a rolling cache beyond its extent": (
        lambda: Positions.rolling(past=5, window=3, extent=5),
        ["extent=5", "largest position is 5", "at least 6"],
    ),
    "a window of nothing": (
        lambda: Positions.rolling(past=3, window=0),
        [r"Positions\.rolling\(1, past=3, window=0", "window >= 1"],
    ),
    "too few positions to draw": (
        lambda: Positions.random(5, longest=4),
        [r"longest=4", "5 tokens", "at least 5"],
    ),
    "a generator elsewhere": (
        lambda: Positions.random(3, longest=4, device="meta", generator=torch.Generator()),
        ["generator is on cpu, the tokens on meta", r"torch\.Generator\('meta'\)"],
    ),
    "random without tokens": (
        lambda: Positions.random(longest=4),
        [r"Positions\.random\(None, batch=None\)", "attention_mask"],
    ),
    "random of two sizes": (
        lambda: Positions.random(3, longest=9, attention_mask=torch.ones(2, 4)),
        [r"Positions\.random\(3", r"\(2, 4\)", "leave them away"],
    ),
    "random with holes": (
        lambda: Positions.random(longest=9, attention_mask=torch.tensor([[1, 0, 1]])),
        [r"Positions\.random\(attention_mask", "hole"],
    ),
    "more chunks than tokens": (
        lambda: Positions.skipping(3, longest=9, chunks=4),
        ["longest=9, chunks=4", "3 tokens", "1 <= chunks <= tokens <= longest"],
    ),
    "no chunks": (lambda: Positions.skipping(3, longest=9, chunks=0), ["chunks=0"]),
    "no room to skip": (lambda: Positions.skipping(3, longest=2), ["longest=2", "3 tokens"]),
    "grids of patches for tokens": (
        lambda: Positions.mrope(TYPES, torch.tensor([[1, 4, 4]])),
        ["4 tokens of images", "grids hold 16", "merge size"],
    ),
    "an image without a grid": (
        lambda: Positions.mrope(TYPES),
        ["4 tokens of images", "grids hold 0", "one grid per image"],
    ),
    "a video without tokens": (
        lambda: Positions.mrope(TYPES, torch.tensor([[1, 2, 2]]), torch.tensor([[1, 2, 2]])),
        ["0 tokens of videos", "grids hold 4"],
    ),
    "an image that is cut": (
        lambda: Positions.mrope(torch.tensor([[0, 1, 1, 0, 1, 1]]), torch.tensor([[1, 2, 2]])),
        [r"number 0 of images is \[1, 2, 2\]", "cut after 2", "row 0, token 4"],
    ),
    "an image that goes on in the next row": (
        lambda: Positions.mrope(torch.tensor([[0, 1, 1], [1, 1, 0]]), torch.tensor([[1, 2, 2]])),
        ["number 0 of images", "row 1, token 0"],
    ),
    "a merge that does not divide": (
        lambda: Positions.mrope(TYPES, torch.tensor([[1, 4, 3]]), merge=2),
        ["merge=2", r"grid 0 is \[1, 4, 3\]", "multiples"],
    ),
    "a merge of nothing": (lambda: Positions.mrope(TYPES, merge=0), ["merge=0", "at least 1"]),
    "grids of two numbers": (
        lambda: Positions.mrope(TYPES, torch.tensor([[2, 2]])),
        [r"images=\.\.\.", r"\(1, 2\)", r"\(time, height, width\)"],
    ),
    "a frame step for each of other videos": (
        lambda: Positions.mrope(TYPES, torch.tensor([[1, 2, 2]]), frame_step=torch.ones(2)),
        [r"frame_step=\.\.\.", r"\(2,\)", "there are 0 videos"],
    ),
    "a frame step backwards": (
        lambda: Positions.mrope(TYPES, torch.tensor([[1, 2, 2]]), frame_step=-1.0),
        [r"frame_step=-1\.0", ">= 0"],
    ),
    "token ids for token types": (
        lambda: Positions.mrope(TYPES * 151655),
        ["from 0 to 151655", "0 is text", r"\(ids == image_id\)"],
    ),
    "token types of one row": (lambda: Positions.mrope(TYPES[0]), [r"\(6,\)", r"\(b, k_len\)"]),
    "another text_after": (
        lambda: Positions.mrope(TYPES, text_after="end"),
        ["text_after='end'", "'largest' or 'side'"],
    ),
    "a mask of another shape": (
        lambda: Positions.mrope(TYPES, torch.tensor([[1, 2, 2]]), attention_mask=torch.ones(2, 6)),
        [r"\(1, 6\)", r"\(2, 6\)"],
    ),
    "images on another device": (
        lambda: Positions.mrope(TYPES, on_meta(1, 3)),
        ["token_types on cpu, images on meta", "one device"],
    ),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("name", BAD)
def test_what_does_not_add_up_is_refused(name: str) -> None:
    call, said = BAD[name]
    with pytest.raises(PositionsError) as caught:
        call()
    for part in said:
        assert caught.match(part)


# Traced graphs, where no value may be read.


IN_GRAPHS = {
    "cu_seqlens": lambda x, cu: Positions.build(x.shape[0], cu_seqlens=cu, causal=True),
    "varlen": lambda x, cu: Positions.varlen(
        cu, cu, q_len=x.shape[0], k_len=x.shape[0], causal=True
    ),
    "past": lambda x, cu: Positions.build(2, past=x.shape[0] - 2, start=2, device=x.device),
    "documents": lambda x, cu: Positions.build(documents=x > 2, attention_mask=x[None] < 99),
    "static": lambda x, cu: Positions.static(2, 9, cu[-1] - 2),
    "rolling": lambda x, cu: Positions.rolling(past=x.shape[0], window=3, sinks=1, device=x.device),
    "random": lambda x, cu: Positions.random(x.shape[0], longest=x.shape[0], device=x.device),
    "skipping": lambda x, cu: Positions.skipping(x.shape[0], longest=x.shape[0], device=x.device),
    "mrope": lambda x, cu: Positions.mrope(
        (x[None] < 4).long(), cu.new_tensor([[1, 2, 2]]), attention_mask=x[None] < 99
    ),
}


@pytest.mark.graph
@pytest.mark.parametrize("name", IN_GRAPHS)
def test_positions_may_be_built_inside_a_graph(name: str) -> None:
    build = IN_GRAPHS[name]

    def tensors(x: Tensor, cu: Tensor) -> list[Tensor]:
        return [leaf for leaf in pytree.tree_leaves(build(x, cu)) if isinstance(leaf, Tensor)]

    torch._dynamo.reset()
    compiled = torch.compile(tensors, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (5, 8):
        given_ = torch.arange(length), torch.tensor([0, 2, 2, length])
        for got, wanted in zip(compiled(*given_), tensors(*given_), strict=True):
            assert torch.equal(got, wanted)


@pytest.mark.parametrize("name", IN_GRAPHS)
def test_everything_lies_where_the_tokens_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of another device cannot be mixed with those on meta, which have no values."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with torch.device("meta"):
        said = torch.arange(8), torch.tensor([0, 2, 2, 8])
    for leaf in pytree.tree_leaves(IN_GRAPHS[name](*said)):
        assert not isinstance(leaf, Tensor) or leaf.device.type == "meta"


@pytest.mark.graph
def test_a_graph_must_be_told_how_many_tokens_there_are() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda cu: Positions.build(cu_seqlens=cu).k, fullgraph=True, backend="eager"
    )
    with pytest.raises(Exception, match="tell the number of tokens"):
        compiled(torch.tensor([0, 2, 5]))
