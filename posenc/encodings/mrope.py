from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from posenc.encoding import Encoding, Pairs, Tags
from posenc.encodings._rotary import Angles, angle_by_axis
from posenc.encodings.rotary import Rotary
from posenc.encodings.scaling import Scaling, YaRN
from posenc.errors import SettingError, listed, one_of, whole
from posenc.terms import Layout


class MRoPE(Rotary):
    """RoPE whose pairs are shared out among time, height and width.

        angle[token, i] = position[token, axis of pair i] * base**(-2i/rotary_dim)

    sections count the pairs of each axis, (time, height, width) in Qwen's models, and add up to
    rotary_dim/2. They lie one after another, or with interleaved=True take turns: pair i belongs to
    axis i % axes while that axis has pairs left, and to the first axis beyond. With "space" the
    later axes take turns over the first pairs, and the last pairs are those of time. layout,
    rotary_dim, scaling and start are as in Rotary: Qwen3.5 turns 64 of 256 dimensions, MRoPE(256,
    (11, 11, 10), interleaved=True, base=1e7, rotary_dim=64). HunYuan-VL's xDRoPE has four axes.
    VideoRoPE gives time the slowest pairs, MRoPE(128, (16, 24, 24), "space"); its positions are the
    caller's to make.

    Positions are (b, t, axes); with one coordinate per token, as in text, all axes read the same
    one, which is Rotary. Causality reads the order of tokens, not time. Raises SettingError for
    sections that do not add up, or do not fit between each other; PositionsError for positions of
    another number of axes; and what Rotary raises.

    Source: Wang et al. 2024, arXiv:2409.12191, section 2.1; interleaved: Qwen3-VL,
    arXiv:2511.21631; "space": the code of ERNIE 4.5 VL and of VideoRoPE (arXiv:2502.05173); four
    axes: vLLM's xdrope.py.
    """

    name = "mrope"
    paper = "arXiv:2409.12191"
    tags = Tags(translation_invariant=True, norm_preserving=True, comparable="on text it is Rotary")

    def __init__(
        self,
        dim: int,
        sections: Sequence[int],
        interleaved: bool | Literal["space"] = False,
        base: float = 10_000.0,
        layout: Layout = "half",
        rotary_dim: int | None = None,
        scaling: Scaling | None = None,
        start: int = 0,
    ) -> None:
        super().__init__(dim, base, layout, rotary_dim, scaling, start)
        one_of("MRoPE", (False, True, "space"), interleaved=interleaved)
        self.sections, self.interleaved = listed("MRoPE", sections=sections), interleaved
        self.axes, pairs = len(self.sections), self.rotated_dim // 2
        call = f"MRoPE(dim={dim}, sections={self.sections}, interleaved={interleaved!r})"
        for count in self.sections:
            whole("MRoPE", 0, sections=count)
        if min(self.sections, default=0) < 1 or sum(self.sections) != pairs:
            half = "dim/2" if rotary_dim is None else "rotary_dim/2"
            raise SettingError(
                f"{call}: sections count pairs, one or more per axis, and must add up to {half} = "
                f"{pairs}, but these add up to {sum(self.sections)}"
            )
        if interleaved == "space" and len(set(self.sections[1:])) > 1:
            raise SettingError(
                f"{call}: axes that take turns have as many pairs, but those of space have "
                f"{self.sections[1:]}"
            )
        # The first axis takes what is left, and so always fits.
        later = enumerate(self.sections[1:], start=1)
        last = max((axis + self.axes * (count - 1) for axis, count in later), default=0)
        if interleaved is True and last >= pairs:
            raise SettingError(
                f"{call}: one pair in {self.axes} is free for each later axis, but the last one "
                f"wanted is pair {last} of 0 to {pairs - 1}: make the first section larger"
            )

    @classmethod
    def for_model(cls, *, head_dim: int, **_: object) -> Encoding:
        pairs = head_dim // 2
        space = max(1, 3 * pairs // 8)
        return cls(head_dim, (pairs - 2 * space, space, space))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, (2, 3, 3))
        yield cls(20, (4, 3, 3), interleaved=True, base=500.0)
        yield cls(20, (3, 2, 2), interleaved=True, rotary_dim=14, scaling=YaRN(4.0, 64))
        yield cls(16, (2, 3, 3), interleaved="space", base=500.0, layout="interleaved")

    def _axis_of_pair(self) -> list[int]:
        if self.interleaved == "space":
            first, *later = self.sections
            return [*range(1, self.axes)] * max(later, default=0) + [0] * first
        if not self.interleaved:
            return [axis for axis, count in enumerate(self.sections) for _ in range(count)]
        # Axes take turns until their sections end, and what is left is of the first.
        turns = [(pair, pair % self.axes) for pair in range(self.rotated_dim // 2)]
        return [axis if pair < self.axes * self.sections[axis] else 0 for pair, axis in turns]

    def angles(self, coordinates: Tensor, length: Int[Tensor, "#b #t"] | None = None) -> Angles:
        if coordinates.ndim < 3:
            return super().angles(coordinates, length)
        theta = self.token_frequencies(length, coordinates.device)
        return angle_by_axis(coordinates, self._axis_of_pair(), theta, "MRoPE")

    def reference_angles(self, at: Pairs) -> Float64[Tensor, "b 1 tq tk r"]:
        axes, angles = len(self.sections), []
        frequencies = self.reference_frequencies(at)
        space = sum(self.sections[1:])
        for i in range(self.rotated_dim // 2):
            if self.interleaved == "space":
                axis = 1 + i % (axes - 1) if i < space else 0
            elif self.interleaved:
                axis = i % axes if i < axes * self.sections[i % axes] else 0
            else:
                axis = sum(i >= sum(self.sections[: n + 1]) for n in range(axes))
            q, k = (x if x.ndim == 2 else x[..., axis] for x in (at.q, at.k))
            back = q[:, None, :, None] - k[:, None, None, :]
            angles.append(back * frequencies[..., i])
        return torch.stack(angles, dim=-1)
