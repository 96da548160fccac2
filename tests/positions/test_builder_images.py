"""Text with images and videos, against transformers' counting."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from posenc import Positions


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
    assert torch.equal(ours.keys.position[real], theirs.movedim(0, -1)[real])
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
        # For single frames the larger side is the largest position.
        ours = Positions.mrope(**said, merge=2, frames_apart=True, text_after=text_after)
        assert torch.equal(ours.keys.position[real], theirs.movedim(0, -1)[real])


def test_text_after_a_long_video_has_times_of_its_own() -> None:
    """transformers 5 goes on after the larger side, in the midst of the video's times."""
    types = torch.tensor([[0] + [2] * 5 + [0, 0]])
    clip = torch.tensor([[5, 2, 2]])
    theirs, _ = qwen("qwen2_vl").get_rope_index(types, types, None, clip)
    assert theirs[0, 0].tolist() == [0, 1, 2, 3, 4, 5, 2, 3]
    ours = Positions.mrope(types, videos=clip, merge=2)
    assert ours.keys.position[0, :, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert ours.keys.position[0, :, 1].tolist() == [0, 1, 1, 1, 1, 1, 6, 7]


def test_an_image_takes_the_larger_side_of_its_grid() -> None:
    types = torch.tensor([[0, 0, *[1] * 6, 0, 0]])
    at = Positions.mrope(types, torch.tensor([[1, 2, 3]]), causal=True)
    assert at.keys.position[0].tolist() == [
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
    assert at.keys.position[0, :, 2].tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 3, 4]


def test_mrope_in_chunks_is_mrope() -> None:
    types = torch.tensor([[0, 0, *[1] * 6, 0, 0]])
    grid = torch.tensor([[1, 2, 3]])
    whole = Positions.mrope(types, grid, causal=True)
    last = Positions.mrope(types, grid, q_len=4, causal=True)
    assert torch.equal(last.queries.position, whole.queries.position[:, -4:])
    assert torch.equal(last.keys.position, whole.keys.position)
