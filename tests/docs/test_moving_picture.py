"""The moving picture of README, as tools/moving_picture.py takes it of the explorer's page."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

import moving_picture  # noqa: E402


def taken(path: Path) -> list[np.ndarray]:
    """The frames as they are shown."""
    with Image.open(path) as picture:
        shown = []
        for frame in range(picture.n_frames):
            picture.seek(frame)
            shown.append(np.asarray(picture.convert("RGB")))
    return shown


def test_strips_stand_below_each_other_on_their_paper() -> None:
    strips = [Image.new("RGB", size, "white") for size in ((30, 10), (20, 5))]
    strips[0].putpixel((29, 9), (200, 0, 0))
    strips[1].putpixel((0, 0), (0, 0, 200))
    picture = moving_picture.stacked(strips, margin=2)
    assert picture.size == (34, 21)
    assert {picture.getpixel(place) for place in ((0, 0), (33, 20), (30, 16))} == {(255, 255, 255)}
    assert picture.getpixel((31, 11)) == (200, 0, 0)
    assert picture.getpixel((2, 14)) == (0, 0, 200)


def test_frames_go_there_and_back_on_paper_of_the_same_colour(tmp_path: Path) -> None:
    steps = [Image.linear_gradient("L").convert("RGB") for _ in range(3)]
    for step, frame in enumerate(steps):
        frame.paste((21, 24, 29), (0, 0, 256, 128))
        frame.paste((250, 0, 0), (10 * step, 50, 10 * step + 10, 60))
    moving_picture.write(tmp_path / "picture.gif", steps, milliseconds=50)
    first, second, third, fourth = taken(tmp_path / "picture.gif")
    assert (second == fourth).all()
    assert [int((frame[55] != frame[5]).any(-1).argmax()) for frame in (first, second, third)] == [
        0, 10, 20,
    ]  # fmt: skip
    assert first[0, 0].tolist() == [21, 24, 29]
    with Image.open(tmp_path / "picture.png") as still:
        assert (np.asarray(still.convert("RGB")) == first).all()


@pytest.mark.long
def test_q_and_k_move_by_the_same_number_and_their_score_stands_still(
    node: str, chromium: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (ROOT / "tests" / "explorer" / "node_modules" / "playwright-core").is_dir():
        pytest.skip("playwright-core is not installed: npm ci in tests/explorer")
    monkeypatch.setattr(moving_picture, "LANGUAGES", ("zh",))
    words = ["moving_picture", str(tmp_path / "rotation"), "--by", "2", "--scale", "1"]
    monkeypatch.setattr(sys, "argv", words)
    moving_picture.main()
    for theme in ("light", "dark"):
        first, second, third, fourth = taken(tmp_path / f"rotation.zh.{theme}.gif")
        assert (second == fourth).all()
        height, width, _ = first.shape
        arrows, score = (slice(0, width // 2), slice(int(0.6 * width), width))
        above = slice(0, int(0.7 * height))
        for one, other in ((first, second), (second, third)):
            assert (one[above, arrows] != other[above, arrows]).any()
            assert (one[above, score] == other[above, score]).all()
        # It is written there, and is no question mark that waits for a prediction.
        assert len(np.unique(first[above, score].reshape(-1, 3), axis=0)) > 3
    monkeypatch.setattr(sys, "argv", [*words, "--element", ".nowhere"])
    monkeypatch.setattr(moving_picture, "PATIENCE", 500)
    with pytest.raises(subprocess.CalledProcessError):
        moving_picture.main()
