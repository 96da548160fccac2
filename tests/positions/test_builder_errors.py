"""What contradicts itself is refused when positions are built."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Positions, PositionsError
from tests.support.refusals import assert_refused

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
    "one length": (
        lambda: Positions.build(lengths=5),
        [r"lengths=5\) has shape \(\)", "one whole number >= 1 per document"],
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
    "an additive mask of whole numbers": (
        lambda: Positions.build(attention_mask=(1 - torch.tensor([[1, 0]])) * -10_000),
        ["negative values", "added to scores", "nonzero for real tokens"],
    ),
    "a mask that holds NaN": (
        lambda: Positions.build(attention_mask=torch.tensor([[1.0, torch.nan]])),
        ["NaN", "nonzero for real tokens"],
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
    "frames that do not merge": (
        lambda: Positions.mrope(TYPES, videos=torch.tensor([[3, 1, 1]]), frame_merge=2),
        ["frame_merge=2", r"grid 0 is \[3, 1, 1\]"],
    ),
    "sound among two videos": (
        lambda: Positions.mrope(torch.tensor([[2, 3, 2]]), videos=torch.tensor([[1, 1, 1]] * 2)),
        ["row 0, token 1", "2 videos", "token of text between"],
    ),
    "an image in two documents": (
        lambda: Positions.mrope(
            TYPES, torch.tensor([[1, 2, 2]]), documents=torch.tensor([0, 0, 0, 1, 1, 1])
        ),
        ["number 0 of images", "token 3", "one document"],
    ),
    "documents of other tokens": (
        lambda: Positions.mrope(TYPES * 0, documents=torch.zeros(5, dtype=torch.long)),
        [r"\(1, 6\)", r"\(5,\)"],
    ),
    "planes of one coordinate": (
        lambda: Positions.build(3).planes(),
        [r"\(3,\)", "one coordinate"],
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
    assert_refused(call, PositionsError, said)
