"""What training reached, beside values told by hand."""

import pytest
import torch

import posenc as pe
from posenc.encoding import Encoding
from posenc.lab.trained_reach import trained_reach


def t5() -> Encoding:
    made = pe.T5Bias(4, buckets=8, max_distance=16)
    torch.nn.init.normal_(made.weight, generator=torch.Generator().manual_seed(0))
    return made


@pytest.mark.parametrize(
    ("encoding", "position", "distance"),
    [
        # The token itself and the four before it.
        (pe.SlidingWindow(5), None, 4),
        # Every distance from the clip on has the clip's vector.
        (pe.Shaw(8, clip=4), None, 4),
        # Buckets 0 to 3 hold one distance each, 4 begins at 4, and 5, 6, 7 at 6, 8 and 12.
        (t5(), None, 12),
        # Beyond the window every distance turns as far as the window.
        (pe.ReRoPE(32, window=6), None, 6),
        # A window of 6 sees, next to its sinks, no angle beyond its own.
        (pe.LMInfinite(32, window=6), None, 6),
        # In groups of four: 60 to 63 are one position.
        (pe.SelfExtend(32, window=6, group=4), None, 60),
        (pe.Rotary(32), 63, 63),
        (pe.ALiBi(4), None, 63),
        (pe.NoPE(), None, 63),
        (pe.Learned(8, 80), 63, 63),
        (pe.Sinusoidal(8), 63, 63),
    ],
    ids=lambda value: value.name if isinstance(value, Encoding) else str(value),
)
def test_of_64_tokens(encoding: Encoding, position: int | None, distance: int) -> None:
    reach = trained_reach([encoding], 64)
    assert (reach.position, reach.distance) == (position, distance)


def test_an_encoding_that_cannot_be_measured_has_no_number() -> None:
    reach = trained_reach([pe.Learned(8, 40)], 64)
    assert (reach.position, reach.distance) == (None, None)


def test_measuring_draws_nothing_from_the_generator_of_the_run() -> None:
    encoding = pe.Shaw(8, clip=4)
    torch.manual_seed(3)
    trained_reach([encoding], 16)
    after = torch.rand(3)
    torch.manual_seed(3)
    assert torch.equal(after, torch.rand(3))
