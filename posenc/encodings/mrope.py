from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Encoding, Pairs, Tags
from posenc.encodings._rotary import Angles, RotaryEncoding, angle_by_axis, geometric
from posenc.errors import SettingError


class MRoPE(RotaryEncoding):
    """RoPE whose pairs are shared out among time, height and width.

        angle[token, i] = position[token, axis of pair i] * base**(-2i/dim)

    sections count the pairs of each axis, (time, height, width) in Qwen's models, and add up to
    dim/2. They lie one after another, or with interleaved=True take turns: pair i belongs to axis
    i % axes while that axis has pairs left, and to the first axis beyond. Layout "half".
    Positions are (b, t, axes); with one coordinate per token, as in text, all axes read the same
    one, which is Rotary. Causality reads the order of tokens, not time. Raises SettingError for
    sections that do not add up, or do not fit between each other; PositionsError for positions of
    another number of axes.

    Source: Wang et al. 2024, arXiv:2409.12191, section 2.1; interleaved: Qwen3-VL,
    arXiv:2511.21631.
    """

    name = "mrope"
    paper = "arXiv:2409.12191"
    tags = Tags(translation_invariant=True, norm_preserving=True, comparable="on text it is Rotary")

    def __init__(
        self,
        dim: int,
        sections: Sequence[int],
        interleaved: bool = False,
        base: float = 10_000.0,
    ) -> None:
        super().__init__(dim, base)
        self.sections, self.interleaved = tuple(sections), interleaved
        self.axes = len(self.sections)
        call = f"MRoPE(dim={dim}, sections={self.sections}, interleaved={interleaved})"
        if min(self.sections, default=0) < 1 or sum(self.sections) != dim // 2:
            raise SettingError(
                f"{call}: sections count pairs, one or more per axis, and must add up to dim/2 = "
                f"{dim // 2}, but these add up to {sum(self.sections)}"
            )
        # The first axis takes what is left, and so always fits.
        later = enumerate(self.sections[1:], start=1)
        last = max((axis + self.axes * (count - 1) for axis, count in later), default=0)
        if interleaved and last >= dim // 2:
            raise SettingError(
                f"{call}: one pair in {self.axes} is free for each later axis, but the last one "
                f"wanted is pair {last} of 0 to {dim // 2 - 1}: make the first section larger"
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

    def _axis_of_pair(self) -> list[int]:
        if not self.interleaved:
            return [axis for axis, count in enumerate(self.sections) for _ in range(count)]
        owner = [0] * (self.dim // 2)
        for axis, count in enumerate(self.sections[1:], start=1):
            owner[axis : self.axes * count : self.axes] = [axis] * count
        return owner

    def angles(self, coordinates: Tensor) -> Angles:
        if coordinates.ndim < 3:
            return super().angles(coordinates)
        frequencies = geometric(self.base, self.dim, coordinates.device)
        return angle_by_axis(coordinates, self._axis_of_pair(), frequencies, "MRoPE")

    def reference_angles(self, at: Pairs) -> Float64[Tensor, "b 1 tq tk r"]:
        axes, angles = len(self.sections), []
        for i in range(self.dim // 2):
            if self.interleaved:
                axis = i % axes if i < axes * self.sections[i % axes] else 0
            else:
                axis = sum(i >= sum(self.sections[: n + 1]) for n in range(axes))
            q, k = (x if x.ndim == 2 else x[..., axis] for x in (at.q, at.k))
            back = q[:, None, :, None] - k[:, None, None, :]
            angles.append(back * self.base ** (-2 * i / self.dim))
        return torch.stack(angles, dim=-1)
