"""Positions of batches as collators make them."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.errors import PositionsError

DOCUMENTS = [[5, 6, 7], [8], [9, 10]]
DOCUMENT = torch.tensor([[0, 0, 0, 1, 2, 2]])
IDS = torch.tensor([[0, 1, 2, 0, 0, 1]])


def visible(positions: pe.Positions) -> torch.Tensor:
    seen = positions.visible()
    assert seen is not None
    return seen[:, 0]


def packed() -> torch.Tensor:
    row = DOCUMENT[0]
    order = torch.arange(6)
    return ((row[:, None] == row) & (order <= order[:, None]))[None]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"return_flash_attn_kwargs": True},
        {"return_seq_idx": True},
        {"return_seq_idx": True, "return_position_ids": False},
        {"return_flash_attn_kwargs": True, "return_position_ids": False},
        {"position_ids_start": 2},
    ],
    ids=str,
)
def test_flattened_by_transformers_documents_do_not_see_each_other(
    settings: dict[str, Any],
) -> None:
    transformers = pytest.importorskip("transformers")
    collate = transformers.DataCollatorWithFlattening(return_tensors="pt", **settings)
    positions = pe.positions_from(collate([{"input_ids": x} for x in DOCUMENTS]))
    assert torch.equal(visible(positions), packed())
    start = settings.get("position_ids_start", 0)
    assert torch.equal(positions.keys.position.view(1, -1), IDS + start)
    # Counted positions keep the fast paths.
    assert positions.unit_step == (start == 0)


def test_documents_in_an_attention_mask_are_told_by_its_numbers() -> None:
    mask = torch.tensor([[1, 1, 1, 2, 3, 3, 0]])
    positions = pe.positions_from({"attention_mask": mask})
    assert torch.equal(visible(positions)[:, :6, :6], packed())
    assert not visible(positions)[..., 6].any()


def test_padding_is_hidden_and_not_taken_for_a_document() -> None:
    # As generate makes them: padding has position 1.
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    ids = torch.tensor([[1, 1, 0, 1, 2], [0, 1, 2, 3, 4]])
    positions = pe.positions_from({"attention_mask": mask, "position_ids": ids})
    expected = pe.Positions.build(attention_mask=mask, causal=True)
    assert torch.equal(visible(positions), visible(expected))
    assert positions.keys.document is None
    assert positions.unit_step


@pytest.mark.parametrize("ids", [[0, 1, 2, 100, 101], [0, 1, 30, 30, 31]], ids=["leap", "ties"])
def test_leaps_and_ties_begin_no_document_and_keep_their_coordinates(ids: list[int]) -> None:
    positions = pe.positions_from({"position_ids": torch.tensor([ids])})
    assert positions.keys.document is None
    assert positions.keys.position.tolist() == [ids]
    assert positions.extent == ids[-1] + 1
    assert torch.equal(visible(positions), torch.ones(5, 5).tril().bool()[None])


def test_images_have_three_coordinates_and_packed_ones_their_documents() -> None:
    types = torch.tensor([[0, 1, 1, 1, 1, 0, 1, 1, 0]])
    grids, rope = torch.tensor([[1, 4, 4], [1, 2, 4]]), pe.MRoPE(16, (2, 3, 3))
    for documents in (None, torch.tensor([0] * 6 + [1] * 3)):
        told = {"causal": True, "documents": documents}
        at = pe.Positions.mrope(types, grids, merge=2, **told)
        read = pe.positions_from({"position_ids": at.planes()})
        assert torch.equal(read.keys.position, at.keys.position)
        assert (read.keys.document is None) == (documents is None)
        x = torch.randn(1, 2, 9, 16, dtype=torch.float64)
        out, expected = (pe.attend(x, x, x, rope, positions=one) for one in (read, at))
        torch.testing.assert_close(out, expected)


def test_time_stamps_are_read_beside_a_mask() -> None:
    ids = torch.tensor([[0.0, 0.5, 1.75], [0.25, 0.5, 0.0]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    read = pe.positions_from({"position_ids": ids, "attention_mask": mask})
    assert torch.equal(read.keys.position, ids)
    assert read.keys.document is None


def test_bare_tokens_count() -> None:
    batch = {"input_ids": torch.zeros(2, 4, dtype=torch.long)}
    assert pe.positions_from(batch).in_order
    assert not pe.positions_from(batch, causal=False).causal


def test_attention_over_a_batch_is_that_over_its_documents() -> None:
    q, k, v = torch.randn(3, 1, 2, 6, 8, dtype=torch.float64).unbind()
    whole = pe.attend(q, k, v, pe.Rotary(8), positions=pe.positions_from({"position_ids": IDS}))
    parts = [
        pe.attend(*(x[:, :, a:b] for x in (q, k, v)), pe.Rotary(8), causal=True)
        for a, b in ((0, 3), (3, 4), (4, 6))
    ]
    torch.testing.assert_close(whole, torch.cat(parts, dim=2))


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    ("batch", "says"),
    [
        ({"pixel_values": torch.zeros(1, 3)}, "not even the number of tokens"),
        ({"attention_mask": torch.ones(1, 1, 4, 4)}, r"\(b, t\) is needed"),
        ({"position_ids": IDS[0]}, r"position_ids of shape \(6,\).*position_ids\[None\]"),
        ({"input_ids": IDS[0]}, r"input_ids of shape \(6,\)"),
        ({"attention_mask": [[1, 1]]}, "attention_mask=.*give a tensor"),
        (
            {"cu_seq_lens_q": torch.tensor([0, 2, 6]), "seq_idx": DOCUMENT},
            "cu_seq_lens_q and seq_idx tell of other documents",
        ),
        ({"attention_mask": torch.tensor([[1, 0, 1]])}, "has a hole"),
        ({"cu_seq_lens_q": torch.tensor([0, 2]), "input_ids": DOCUMENT}, "cu_seqlens"),
    ],
)
def test_what_tells_no_positions_is_refused(batch: dict[str, Any], says: str) -> None:
    with pytest.raises(PositionsError, match=says):
        pe.positions_from(batch)


def test_other_coordinates_need_queries_that_are_all_keys() -> None:
    with pytest.raises(PositionsError, match="1 queries and 4 keys"):
        pe.Positions.build(1, 4).at(torch.arange(4))
