"""Hard-ALiBi: windows of single heads."""

import pytest
import torch

from posenc import HardALiBi, Positions, SlidingWindow, Tokens, attend
from posenc.errors import SettingError


@pytest.mark.parametrize("causal", [True, False])
def test_each_head_of_hard_alibi_is_a_window_of_its_own(causal: bool) -> None:
    q, k, v = torch.randn(3, 2, 4, 9, 8, dtype=torch.float64).unbind()
    whole = attend(q, k, v, HardALiBi(4, windows=(1, 5)), causal=causal)
    for head, masks in enumerate(([SlidingWindow(1)], [SlidingWindow(5)], [], [])):
        one = slice(head, head + 1)
        alone = attend(q[:, one], k[:, one], v[:, one], masks, causal=causal)
        torch.testing.assert_close(whole[:, one], alone, rtol=0, atol=1e-12)


def test_hard_alibi_has_the_windows_of_its_authors_unless_others_are_given() -> None:
    assert HardALiBi(16).windows == (1, 2, 3, 4, 5, 6, 7, 8)
    assert HardALiBi(1).windows == ()
    with pytest.raises(SettingError, match="3 windows, and each is of one head"):
        HardALiBi(2, windows=(1, 2, 3))
    with pytest.raises(SettingError, match="windows=0"):
        HardALiBi(2, windows=(0,))


def test_hard_alibi_reads_two_sides_without_knowing_how_far_they_reach() -> None:
    q, k = torch.randn(1, 4, 3, 8), torch.randn(1, 4, 5, 8)
    far = torch.arange(5) + 1_000_000
    positions = Positions(Tokens(far[:3]), Tokens(far))
    out = attend(q, k, k, HardALiBi(4, windows=(1,)), positions=positions)
    torch.testing.assert_close(out[:, 0], k[:, 0, :3])
    torch.testing.assert_close(out[:, 1:], attend(q, k, k)[:, 1:])
