from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.encodings._rotary import Angles, RotaryEncoding, angle, geometric
from posenc.encodings.scaling import (
    DynamicNTK,
    DynamicYaRN,
    Length,
    Linear,
    Llama3,
    LongRoPE,
    Proportional,
    Resonance,
    Scaled,
    Scaling,
    YaRN,
)
from posenc.errors import SettingError
from posenc.positions import Positions, one_axis
from posenc.terms import Layout, Rotate, Scale, Term
from posenc.torch_modes import settled


class Rotary(RotaryEncoding):
    """RoPE: each pair of a head's dimensions turns by an angle that grows with position.

        angle[pos, i] = pos * base**(-2i/rotary_dim),   score = scale * R[m] q[m] . R[n] k[n]

    so the score depends on m - n only. layout "half" pairs dimensions (i, i + rotary_dim/2), as
    GPT-NeoX and Hugging Face do; "interleaved" pairs (2i, 2i + 1), as the paper and Meta do. Of
    the dim dimensions rotary_dim turn, from start on (None: all that follow), and the others pass:
    in DeepSeek's heads the last 64, Rotary(192, rotary_dim=64, start=-64). Angles are in radians
    and float64.

    To reach beyond the trained length, scaling changes the frequencies: Linear, NTK, DynamicNTK,
    YaRN, DynamicYaRN, LongRoPE, Llama3, Proportional or Resonance, as in Rotary(64,
    scaling=YaRN(4, 4096)). LLaMA 2 Long (arXiv:2309.16039) is another base, Rotary(64,
    base=500_000.0). Raises SettingError for an odd dim, a rotary_dim that is odd or does not fit
    behind start, and a scaling that does not fit.

    Source: Su et al. 2021, arXiv:2104.09864, equations 14 to 16 and 34; partial turning: GPT-J;
    from start on: DeepSeek-V2, arXiv:2405.04434, section 2.1.3.
    """

    name = "rotary"
    paper = "arXiv:2104.09864"
    tags = Tags(translation_invariant=True, norm_preserving=True)

    def __init__(
        self,
        dim: int,
        base: float = 10_000.0,
        layout: Layout = "half",
        rotary_dim: int | None = None,
        scaling: Scaling | None = None,
        start: int = 0,
    ) -> None:
        super().__init__(dim, base, layout, rotary_dim, start)
        if scaling is not None and not isinstance(scaling, Scaling):
            raise SettingError(
                f"Rotary(scaling={scaling!r}): this is no scaling; give one such as YaRN(4, 4096)"
            )
        self.rotary_dim, self.scaling, self._rule = rotary_dim, scaling, scaling or Scaling()
        self._rule.check(base, self.rotated_dim)
        grows = self._rule.gain_at(None) is not None
        if grows and self.rotated_dim < dim:
            raise SettingError(
                f"Rotary(dim={dim}, rotary_dim={rotary_dim}, scaling={scaling!r}): a gain that "
                "grows with the length multiplies whole scores, of which some dimensions would "
                "not turn here: give attention_factor"
            )
        by_length = self._rule.length_dependent
        self.tags = replace(
            self.tags,
            length_dependent=by_length,
            needs_extent=by_length,
            translation_invariant=not by_length,
            norm_preserving=self._rule.gain == 1.0 and not grows,
        )

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16)
        # The base of LLaMA 2 Long.
        yield cls(20, base=500_000.0, layout="interleaved", rotary_dim=10)
        yield cls(16, base=500.0, scaling=Linear(4.0))
        yarn = YaRN(4.0, 64, beta_fast=8.0, truncate=False)
        yield cls(16, rotary_dim=12, scaling=yarn, start=-12)
        yield cls(16, scaling=DynamicNTK(2.0, original_length=4))
        divisors = {"short": (1.0, 1.1, 1.5, 2.0), "long": (1.0, 1.7, 5.0, 9.0)}
        yield cls(12, rotary_dim=8, scaling=LongRoPE(**divisors, original_length=4, factor=8.0))
        yield cls(16, layout="interleaved", scaling=Llama3(8.0, 1.0, 4.0, original_length=64))
        yield cls(16, scaling=Proportional(0.5))
        yield cls(16, scaling=Resonance(DynamicYaRN(8, beta_fast=8.0)))

    def frequencies(self, length: Length = None, device: torch.device | None = None) -> Scaled:
        """Radians per token of each pair; length (..., 1), int64, is for scalings that read it."""
        theta = geometric(self.base, self.rotated_dim, device)
        return self._rule.frequencies(theta, self.base, length)

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        terms = super().lower(positions, context, dtype=dtype)
        if self._rule.gain_at(None) is None:
            return terms
        length = positions.lengths()[0]
        gain = self._rule.gain_at(length[:, None, :].expand(-1, -1, positions.q_len))
        assert isinstance(gain, Tensor)
        return (*terms, Scale(gain.square().to(dtype)))

    def rotation(self, positions: Positions) -> Rotate:
        q_length, k_length = positions.lengths() if self.tags.length_dependent else (None, None)
        q, k = positions.queries.position, positions.keys.position
        k_angle = self.angles(k, k_length)
        q_angle = k_angle if q is k else self.angles(q, q_length)
        return Rotate(q_angle, k_angle, self.layout, self.first, self._rule.gain)

    def angles(self, coordinates: Tensor, length: Int[Tensor, "#b #t"] | None = None) -> Angles:
        tokens = one_axis(coordinates, "Rotary")
        return angle(tokens, self.token_frequencies(length, tokens.device))

    def token_frequencies(
        self, length: Int[Tensor, "#b #t"] | None, device: torch.device
    ) -> Float64[Tensor, "*#bht r"]:
        """Radians per token of each pair, where lengths of their inputs are told, of each token."""
        if length is not None:
            return self.frequencies(length[:, None, :, None], device)
        # An own class may read more than the settings, an own scaling change; graphs keep nothing.
        own = getattr(self.frequencies, "__func__", None) is not Rotary.frequencies
        if torch.compiler.is_compiling() or own or not self._rule.frozen:
            return self.frequencies(None, device)
        settings = self.base, self.rotated_dim, self._rule
        return settled(
            self, "frequencies", settings, device, lambda: self.frequencies(None, device)
        )

    def reference_angles(self, at: Pairs) -> Float64[Tensor, "b 1 tq tk r"]:
        return -at.distance()[..., None] * self.reference_frequencies(at)

    def reference_frequencies(self, at: Pairs) -> Float64[Tensor, "b 1 1 1 r"]:
        rows = [
            [
                self._rule.reference(i, self.base, self.rotated_dim, length)
                for i in range(self.rotated_dim // 2)
            ]
            for length in self._reference_lengths(at)
        ]
        return at.q.new_tensor(rows)[:, None, None, None]

    def _reference_lengths(self, at: Pairs) -> list[float]:
        return (at.k.flatten(1).amax(dim=-1).ceil() + 1).tolist()

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        gains = [self._rule.reference_gain(length) for length in self._reference_lengths(at)]
        q = q.clone()
        turned = slice(self.first, self.first + self.rotated_dim)
        q[..., turned] *= q.new_tensor(gains).view(-1, 1, 1, 1)
        return super().reference_scores(q, k, at)
