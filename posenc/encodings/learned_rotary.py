from collections.abc import Iterator

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from posenc.encoding import Encoding, Pairs, Tags
from posenc.encodings._rotary import Angles, RotaryEncoding, angle, geometric
from posenc.errors import given, whole
from posenc.positions import one_axis
from posenc.terms import Layout


class LearnedRotary(RotaryEncoding):
    """RoPE whose frequencies are trained, shared by all heads or one spectrum for each.

        angle[pos, h, i] = pos * exp(log_frequency[h, i]),   log_frequency (r,) or (heads, r)

    r = rotary_dim/2 pairs (None: dim/2) start at base**(-2i/rotary_dim) radians per token. heads
    None shares one spectrum. layout, rotary_dim and start are as in Rotary. The parameter
    stays float32 when the module is cast down; angles are float64. Raises SettingError for an odd
    dim, a rotary_dim that is odd or does not fit behind start, and settings <= 0.

    Source: Zhang et al. 2025, arXiv:2512.07805, section 3.1 (GRAPE's commuting rotations), and the
    authors' code; rotary-embedding-torch's learned_freq trains the frequency itself.
    """

    name = "learned_rotary"
    paper = "arXiv:2512.07805"
    tags = Tags(translation_invariant=True, norm_preserving=True)
    keep_float32 = ("log_frequency",)

    def __init__(
        self,
        dim: int,
        heads: int | None = None,
        base: float = 10_000.0,
        layout: Layout = "half",
        rotary_dim: int | None = None,
        start: int = 0,
    ) -> None:
        super().__init__(dim, base, layout, rotary_dim, start)
        whole("LearnedRotary", **given(heads=heads))
        self.heads, self.rotary_dim = heads, rotary_dim
        # Frequencies span decades: a step of the logarithm moves each by the same share.
        log = geometric(base, self.rotated_dim, None).log().float()
        self.log_frequency = nn.Parameter(log if heads is None else log.repeat(heads, 1))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16)
        yield cls(10, heads=4, base=500.0, layout="interleaved", rotary_dim=6, start=2)

    def angles(self, coordinates: Tensor) -> Angles:
        frequency = self.log_frequency.double().exp()
        if self.heads is not None:
            frequency = frequency[:, None]
        return angle(one_axis(coordinates, "LearnedRotary"), frequency)

    def reference_angles(self, at: Pairs) -> Float64[Tensor, "b #h tq tk r"]:
        frequency = torch.exp(self.log_frequency.double())
        return -at.distance()[..., None] * frequency.view(-1, 1, 1, frequency.shape[-1])
