"""Sound and video on one clock, merged frames, and documents in a row, against transformers."""

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc import Positions

TEXT, IMAGE, VIDEO, SOUND, SEE, HEAR, END = range(7)
KINDS = {IMAGE: 1, VIDEO: 2, SOUND: 3}


def omni(version: str) -> Any:
    """A Qwen Omni model that only counts: its weights are never made."""
    module = pytest.importorskip(f"transformers.models.{version}.modeling_{version}")
    names = {"qwen2_5_omni": "Qwen2_5Omni", "qwen3_omni_moe": "Qwen3OmniMoe"}
    kind = getattr(module, f"{names[version]}PreTrainedModelForConditionalGeneration")
    model = object.__new__(kind)
    config = SimpleNamespace(
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        audio_token_id=SOUND,
        vision_start_token_id=SEE,
        audio_start_token_id=HEAR,
        position_id_per_seconds=25 if version == "qwen2_5_omni" else 13,
        seconds_per_chunk=2,
        audio_config=SimpleNamespace(n_window=50),
    )
    object.__setattr__(model, "config", config)
    object.__setattr__(model, "spatial_merge_size", 2)
    return model


def types_of(ids: Tensor) -> Tensor:
    return sum(kind * (ids == token) for token, kind in KINDS.items()).long()


def film(frames: int, area: int, step: float, sound: int, chunk: int | None) -> list[int]:
    """Tokens of a video and its sound in the order of their times, as processors put them."""
    seen = [n * step for n in range(frames) for _ in range(area)]
    seen = [int(time + 1e-6) for time in seen] if chunk else seen
    of = (lambda time: time // chunk) if chunk else (lambda time: time)
    order = [(of(time), 0, i, VIDEO) for i, time in enumerate(seen)]
    order += [(of(n), 1, n, SOUND) for n in range(sound)]
    return [token for *_, token in sorted(order)]


# Frames, seconds between them, and tokens of sound, of which 25 or 13 are a second.
FILMS = [(3, 1.0, 76), (2, 0.4, 12), (5, 2.0, 240), (4, 0.5, 101), (7, 1 / 3, 60)]


def both(version: str, frames: int, seconds: float, sound: int) -> tuple[Tensor, Tensor]:
    """What posenc and transformers count for an image, a film and a voice."""
    older, model = version == "qwen2_5_omni", omni(version)
    rate = model.config.position_id_per_seconds
    parts = film(frames, 6, rate * seconds, sound, 2 * rate if older else None)
    voice = [TEXT, HEAR, *[SOUND] * 7, END, TEXT, TEXT]
    picture = [SEE, *[IMAGE] * 4, END, TEXT]
    ids = torch.tensor([[*picture, SEE, HEAR, *parts, END, END, *voice]])
    mask = torch.ones_like(ids)
    # How long the sound was before their convolutions made tokens of it.
    before = [4 * n if older else 100 * (n // 13) + 8 * (n % 13) for n in (sound, 7)]
    image, clip = torch.tensor([[1, 4, 4]]), torch.tensor([[frames, 4, 6]])
    theirs, _ = model.get_rope_index(
        ids,
        image,
        clip,
        attention_mask=mask,
        use_audio_in_video=True,
        audio_seqlens=torch.tensor(before),
        second_per_grids=torch.tensor([seconds]),
    )
    ours = Positions.mrope(
        types_of(ids),
        image,
        clip,
        merge=2,
        frame_step=rate * seconds,
        whole_steps=older,
        tied_marks=older,
        attention_mask=mask,
    )
    return ours.planes().double(), theirs.double()


@pytest.mark.parametrize(("frames", "seconds", "sound"), FILMS)
@pytest.mark.parametrize("version", ["qwen2_5_omni", "qwen3_omni_moe"])
def test_sound_and_video_count_as_qwen_omni(
    version: str, frames: int, seconds: float, sound: int
) -> None:
    ours, theirs = both(version, frames, seconds, sound)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_words_behind_a_film_are_behind_all_of_it() -> None:
    """transformers goes on after the last piece, here sound that ends before the picture does."""
    ours, theirs = both("qwen2_5_omni", 2, 0.4, 9)
    # An image, two marks, 12 tokens of video and 9 of sound.
    end = 7 + 2 + 12 + 9
    assert torch.equal(ours[..., :end], theirs[..., :end])
    assert (ours[0, 0, end], theirs[0, 0, end]) == (ours[..., :end].max() + 1, 15)
    assert theirs[..., :end].max() == 16


def test_sound_alone_counts_as_text() -> None:
    types = torch.tensor([[0, 0, 3, 3, 3, 0, 0]])
    at = Positions.mrope(types)
    assert at.planes().unique(dim=0).tolist() == [[list(range(7))]]


def test_sound_beside_a_video_begins_with_it() -> None:
    """Qwen2.5-Omni's marks: the two that open share a position, and the two that close."""
    types = torch.tensor([[0, 0, 0, 2, 2, 3, 2, 2, 3, 3, 0, 0, 0]])
    clip = torch.tensor([[2, 1, 2]])
    at = Positions.mrope(types, videos=clip, frame_step=2.0, tied_marks=True)
    assert at.planes()[0, 0].tolist() == [0, 1, 1, 2, 2, 2, 4, 4, 3, 4, 5, 5, 6]
    assert at.planes()[2, 0].tolist() == [0, 1, 1, 2, 3, 2, 2, 3, 3, 4, 5, 5, 6]
    at = Positions.mrope(types, videos=clip, frame_step=2.0)
    assert at.planes()[0, 0].tolist() == [0, 1, 2, 3, 3, 3, 5, 5, 4, 5, 6, 7, 8]


def test_frames_that_are_merged_count_as_ernie() -> None:
    path = "transformers.models.ernie4_5_vl_moe.modeling_ernie4_5_vl_moe"
    module = pytest.importorskip(path)
    model = object.__new__(module.Ernie4_5_VLMoeModel)
    vision = SimpleNamespace(spatial_merge_size=2, temporal_merge_size=2)
    object.__setattr__(model, "config", SimpleNamespace(vision_config=vision))
    types = torch.tensor([[0, *[2] * 18, 0, *[1] * 2, 0], [0] * 9 + [2] * 8 + [0] * 6])
    image, clips = torch.tensor([[1, 2, 4]]), torch.tensor([[6, 4, 6], [4, 4, 4]])
    theirs, _ = model.get_rope_index(types, types, image, clips)
    ours = Positions.mrope(types, image, clips, merge=2, frame_merge=2, text_after="side")
    assert torch.equal(ours.planes(), theirs)


def packed() -> tuple[list[Tensor], list[Tensor]]:
    types = [[0, 1, 1, 1, 1, 0], [0, 2, 2, 3, 2, 2, 3, 0, 0], [0, 0], [1, 1, 0]]
    return [torch.tensor([row]) for row in types], [
        torch.tensor([[1, 2, 2], [1, 1, 2]]),
        torch.tensor([[2, 1, 2]]),
    ]


def test_each_document_of_a_row_counts_for_itself() -> None:
    rows, (images, videos) = packed()
    of = torch.cat([torch.full_like(row, n) for n, row in enumerate(rows)], dim=1)
    at = Positions.mrope(torch.cat(rows, dim=1), images, videos, documents=of, causal=True)
    none = images[:0]
    parts = [(images[:1], none), (none, videos), (none, none), (images[1:], none)]
    alone = [Positions.mrope(row, *of) for row, of in zip(rows, parts, strict=True)]
    assert torch.equal(at.planes(), torch.cat([x.planes() for x in alone], dim=-1))
    assert torch.equal(at.keys.document, of)
    assert torch.equal(at.lengths()[1], torch.cat([x.lengths()[1] for x in alone], dim=-1))
    # One row of one number for all rows, and what transformers knows of documents.
    same = Positions.mrope(torch.cat(rows, dim=1), images, videos, documents=of[0])
    planes = same.planes(order=True)
    assert torch.equal(planes[1:], at.planes())
    assert planes[0, 0].tolist() == [n for row in rows for n in range(row.shape[1])]


def test_transformers_tells_documents_apart_by_the_first_of_four_planes() -> None:
    """Of three planes, and of none, it makes one long document."""
    masks = pytest.importorskip("transformers.masking_utils")
    rows, grids = packed()
    of = torch.cat([torch.full_like(row, n) for n, row in enumerate(rows)], dim=1)
    at = Positions.mrope(torch.cat(rows, dim=1), *grids, documents=of)
    found = masks.find_packed_sequence_indices(at.planes(order=True)[0])
    assert torch.equal(found, of)
    assert not torch.equal(masks.find_packed_sequence_indices(at.planes()[0]), of)


@pytest.mark.parametrize("step", [25 / 3, 4e6, 1e7, 2.0**50])
def test_times_stay_whole_however_long_they_are(step: float) -> None:
    types, clip = torch.tensor([[2, 2, 2, 2]]), torch.tensor([[4, 1, 1]])
    at = Positions.mrope(types, videos=clip, frame_step=step)
    times = at.keys.position[0, :, 0] - at.keys.position[0, 0, 0]
    assert times.tolist() == [int(Fraction(step).limit_denominator(9) * n) for n in range(4)]
