"""HunYuan-VL's positions: by hand, against transformers' own, packed, padded, and refused."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from posenc import MRoPE, Positions, PositionsError, attend

Piece = tuple[int, int] | int


def told(rows: list[list[Piece]], merge: int = 1, marks: bool = False) -> dict[str, Any]:
    """Rows of words (how many) and images (rows, columns of tokens), padded on the right."""
    types, images = [], []
    for row in rows:
        types.append([])
        for piece in row:
            if isinstance(piece, int):
                types[-1] += [0] * piece
            else:
                height, width = piece
                types[-1] += [1] * (height * (width + 1) + 2 * marks)
                images.append([1, height * merge, width * merge])
    length = max(map(len, types))
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in types])
    padded = torch.tensor([row + [0] * (length - len(row)) for row in types])
    grids = torch.tensor(images) if images else None
    return {"token_types": padded, "images": grids, "attention_mask": mask}


def test_a_text_with_two_images_by_hand() -> None:
    at = Positions.xdrope(**told([[1, (1, 2), 1, (2, 1), 1]])).keys.position[0]
    assert at.tolist() == [
        [0, 0, 0, 0],
        [1, 0, 0, 0], [2, 1, 0, 0], [3, 2, 0, 0],
        [4, 4, 4, 4],
        [5, 0, 0, 1], [6, 1, 0, 1], [7, 0, 1, 1], [8, 1, 1, 1],
        [9, 9, 9, 9],
    ]  # fmt: skip


pieces = st.one_of(st.integers(1, 4), st.tuples(st.integers(1, 3), st.integers(1, 3)))


def apart(row: list[Piece]) -> list[Piece]:
    """With a word before each image, for transformers tells images by what is between."""
    return [part for piece in row for part in (1, piece)]


@settings(max_examples=20)
@given(
    row=st.lists(pieces, min_size=1, max_size=5).map(apart),
    merge=st.sampled_from([1, 2]),
    marks=st.booleans(),
    axes=st.sampled_from([3, 4]),
)
def test_it_places_as_transformers_does(
    row: list[Piece], merge: int, marks: bool, axes: int
) -> None:
    code = pytest.importorskip("transformers.models.hunyuan_vl.modeling_hunyuan_vl")
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2] * axes}
    model = object.__new__(code.HunYuanVLModel)
    torch.nn.Module.__init__(model)
    model.config = code.HunYuanVLConfig(
        text_config={"head_dim": 4 * axes, "rope_parameters": rope},
        vision_config={"spatial_merge_size": merge},
    )
    said = told([row], merge, marks)
    types = said["token_types"]
    theirs, _ = model.get_rope_index(types, types, said["images"])
    ours = Positions.xdrope(types, said["images"], merge=merge, marks=marks, axes=axes)
    assert torch.equal(ours.planes(), theirs)


def test_rows_and_documents_say_what_they_say_alone() -> None:
    rows: list[list[Piece]] = [[2, (1, 1), 1, (2, 2)], [(1, 2), 3]]
    alone = [Positions.xdrope(**told([row])).keys.position[0] for row in rows]
    padded = Positions.xdrope(**told(rows), causal=True).keys
    for row, expected in enumerate(alone):
        assert torch.equal(padded.position[row, : len(expected)], expected)
    both = told([[*rows[0], *rows[1]]])
    documents = torch.tensor([0] * len(alone[0]) + [1] * len(alone[1]))
    packed = Positions.xdrope(both["token_types"], both["images"], documents=documents)
    assert torch.equal(packed.keys.position[0], torch.cat(alone))
    left = told([rows[0]])
    left = {k: left[k] for k in ("token_types", "images")}
    left["token_types"] = torch.cat((torch.zeros(1, 3).long(), left["token_types"]), dim=1)
    mask = torch.ones_like(left["token_types"])
    mask[:, :3] = 0
    at = Positions.xdrope(**left, attention_mask=mask).keys.position[0, 3:]
    assert torch.equal(at, alone[0])


def test_the_last_query_beside_all_keys_is_that_of_the_whole() -> None:
    said = told([[2, (2, 2), 2]])
    types, images = said["token_types"], said["images"]
    rope = MRoPE(16, (2, 2, 2, 2))
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, types.shape[1], 16, dtype=torch.float64).unbind()
    whole = attend(q, k, v, rope, positions=Positions.xdrope(types, images, causal=True))
    last = Positions.xdrope(types, images, q_len=1, causal=True)
    step = attend(q[:, :, -1:], k, v, rope, positions=last)
    torch.testing.assert_close(step, whole[:, :, -1:])


def test_text_alone_counts() -> None:
    at = Positions.xdrope(torch.zeros(2, 5).long())
    assert torch.equal(at.keys.position, torch.arange(5)[None, :, None].expand(2, 5, 4))


@pytest.mark.parametrize(
    ("types", "images", "more", "why"),
    [
        ([[0, 1, 1]], [[1, 1, 2]], {}, "2 tokens of images, but their grids hold 3"),
        ([[1, 1, 0, 1]], [[1, 1, 2]], {}, "is cut after 2 of them"),
        ([[1] * 6], [[2, 1, 2]], {}, "a time of 1"),
        ([[0, 2]], None, {}, "0 is text and 1 an image"),
        ([0, 1], None, {}, r"\(b, k_len\) of whole numbers"),
        ([[1, 1]], [[1, 1, 1]], {"merge": 2}, "multiples of merge=2"),
        ([[0]], None, {"axes": 2}, "axes 3 or 4"),
        ([[0]], None, {"merge": 0}, "merge >= 1"),
        ([[1, 1, 1]], [1, 1, 2], {}, r"\(n, 3\)"),
    ],
)
def test_what_it_refuses(types: Any, images: Any, more: dict[str, int], why: str) -> None:
    given = None if images is None else torch.tensor(images)
    with pytest.raises(PositionsError, match=f"Positions.xdrope.*{why}"):
        Positions.xdrope(torch.tensor(types), given, **more)
