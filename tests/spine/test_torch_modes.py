"""What a call runs in, and what is kept beside the fields of frozen values."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch

import posenc as pe
from posenc import torch_modes
from posenc.torch_modes import altered, autocast_off, kept, kept_for, settled


@dataclass(frozen=True)
class _Count:
    value: int
    asked: list[int]

    @kept
    def twice(self) -> int:
        self.asked.append(self.value)
        return 2 * self.value


def test_what_is_kept_is_computed_once() -> None:
    count = _Count(3, [])
    assert [count.twice, count.twice] == [6, 6]
    assert count.asked == [3]


def test_what_a_cuda_graph_captures_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eager call may come before its numbers do."""
    form, made = pe.lower(pe.ALiBi(2), 4).form, []

    def compute() -> int:
        made.append(1)
        return len(made)

    with monkeypatch.context() as patch:
        patch.setattr(torch_modes, "captured", lambda _: True)
        assert [kept_for(form, "_some", (), compute) for _ in range(2)] == [1, 2]
    assert [kept_for(form, "_some", (), compute) for _ in range(2)] == [3, 3]


def test_streams_and_graphs_of_a_gpu_have_their_own_of_what_settings_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A graph would read memory of what is gone, a stream of what is not computed yet."""
    rotary, made, device = pe.Rotary(4), [], torch.device("cuda")

    def compute() -> torch.Tensor:
        made.append(torch.ones(2))
        return made[-1]

    found = []
    for capturing, stream in ((False, 1), (True, 1), (False, 1), (False, 2), (True, 2), (False, 2)):
        at = SimpleNamespace(cuda_stream=stream)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda now=capturing: now)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _, at=at: at)
        x = settled(rotary, "some", (), device, compute)
        found.append(next(i for i, one in enumerate(made) if one is x))
    assert found == [0, 1, 0, 2, 3, 2]


def test_what_is_kept_belongs_to_one_value() -> None:
    count = _Count(3, [])
    assert count.twice == 6
    assert altered(count, value=4) == replace(count, value=4) == _Count(4, [3])
    assert altered(count, value=4).twice == replace(count, value=5).twice - 2 == 8


def test_a_form_that_is_altered_asks_for_other_features() -> None:
    form = pe.lower(pe.Rotary(8), 4).form
    assert form.features
    assert not altered(form, rotation=None, q_waves=None, k_waves=None).features


@pytest.mark.parametrize("enabled", [True, False])
def test_autocast_is_off_within(enabled: bool) -> None:
    x = torch.ones(2, 2)
    with torch.autocast("cpu", torch.bfloat16, enabled=enabled), autocast_off(x.device):
        assert (x @ x).dtype == torch.float32
