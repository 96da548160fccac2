import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from posenc.encoding import Encoding, Tags
from posenc.encodings._absolute import Absolute, Merge
from posenc.errors import SettingError, ShapeError, is_finite, listed, one_of, positive, whole
from posenc.positions import Positions

Wave = Literal["sine", "triangle", "square", "sawtooth"] | Callable[[Tensor], Tensor]
Pairing = Literal["quadrature", "single", "mismatched"]
Frequencies = Literal["geometric", "one"] | Sequence[float]
Turns = Float64[Tensor, "*shape"]


# Waves of period 1 and amplitude 1, in phase with the sine. What jumps does so where the remainder
# of the turns reaches a half, by comparison, so that the same turns always fall on the same side.
def sine(turns: Turns) -> Turns:
    """sin(2 pi turns)."""
    return (2 * math.pi * (turns % 1)).sin()


def triangle(turns: Turns) -> Turns:
    """Straight lines through the peaks and zeros of sine."""
    return 1 - 4 * ((turns + 0.25) % 1 - 0.5).abs()


def square(turns: Turns) -> Turns:
    """The sign of sine; 1 at turn 0, -1 at turn 1/2."""
    return 1 - 2 * (turns % 1 >= 0.5).to(turns.dtype)


def sawtooth(turns: Turns) -> Turns:
    """A straight rise that meets sine at turn 0 and jumps from 1 to -1 at turn 1/2."""
    turn = turns % 1
    return 2 * turn - 2 * (turn >= 0.5).to(turns.dtype)


WAVES = {"sine": sine, "triangle": triangle, "square": square, "sawtooth": sawtooth}


class Waveform(Absolute):
    """Periodic waves of any form in place of sine and cosine, added to the embeddings.

        p[pos, j] = wave(pos * f[j] / (2 pi) + shift[j])

        pairing         f[j] where "geometric"       shift[j]
        "quadrature"    base**(-2 (j // 2) / dim)    0, 1/4, 0, 1/4, ...
        "single"        base**(-j / dim)             0
        "mismatched"    base**(-j / dim)             0, 1/4, 0, 1/4, ...

    wave maps turns to values from -1 to 1 with period 1: "sine", "triangle", "square", "sawtooth",
    or a function of a float64 tensor. f is in radians per token: "geometric" as above, "one"
    (f = 1), or a sequence with one number per pair in quadrature, else one per column. The default
    is Sinusoidal. merge "multiply" is x * (1 + p), "hadamard" x * p, "concat" puts p beside x.

    Only sines in quadrature have p[pos + k] = M[k] p[pos] and an inner product that depends on
    the distance alone. The other settings are here to be seen to fail: other waves, "single" and
    "mismatched" have neither, "one" repeats after its period, and square waves, flat for half a
    turn, give neighbours the same vector. A mismatch that only exchanges frequencies between pairs
    loses nothing: every sine still has its cosine. Raises SettingError for unknown names, for a
    sequence of another length or not positive, and for mismatched pairs whose two frequencies are
    the same; ShapeError where a function changes the shape.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5, for the sine and what it is for.
    """

    name = "waveform"
    paper = "arXiv:1706.03762"
    tags = Tags()

    def __init__(
        self,
        dim: int,
        wave: Wave = "sine",
        pairing: Pairing = "quadrature",
        frequencies: Frequencies = "geometric",
        base: float = 10_000.0,
        merge: Merge = "add",
    ) -> None:
        whole("Waveform", dim=dim)
        positive("Waveform", base=base)
        super().__init__(dim, merge)
        if not callable(wave) and wave not in WAVES:
            raise SettingError(f"Waveform(wave={wave!r}): {', '.join(WAVES)} or a function")
        one_of("Waveform", get_args(Pairing), pairing=pairing)
        self.dim, self.wave, self.base = dim, wave, base
        self.pairing: Pairing = pairing
        self.frequencies: Frequencies = self._checked(frequencies)
        if pairing == "mismatched" and any(
            self._frequency(j) == self._frequency(j + 1) for j in range(0, dim - 1, 2)
        ):
            raise SettingError(
                f"Waveform(pairing='mismatched', frequencies={self.frequencies!r}, base={base}): "
                "both of a pair have the same frequency: give different ones, or 'quadrature'"
            )

    def _checked(self, frequencies: Frequencies) -> Frequencies:
        if isinstance(frequencies, str):
            if frequencies not in ("geometric", "one"):
                raise SettingError(
                    f"Waveform(frequencies={frequencies!r}): 'geometric', 'one' or a sequence"
                )
            return frequencies
        need = (self.dim + 1) // 2 if self.pairing == "quadrature" else self.dim
        numbers = listed("Waveform", f"{need} positive numbers", frequencies=frequencies)
        if len(numbers) != need or not all(is_finite(x) and x > 0 for x in numbers):
            raise SettingError(
                f"Waveform(dim={self.dim}, pairing={self.pairing!r}, "
                f"frequencies={numbers}): {need} positive numbers of radians per "
                "token are needed"
            )
        return tuple(map(float, numbers))

    @classmethod
    def for_model(cls, *, model_dim: int, **_: object) -> Encoding:
        return cls(model_dim, wave="triangle")

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, wave="triangle")
        yield cls(16, wave="square", frequencies="one", merge="multiply")
        yield cls(9, wave="sine", pairing="mismatched", merge="concat")
        yield cls(3, wave=sawtooth, pairing="single", frequencies=(1.0, 0.5, 0.02), merge="concat")

    def turns_per_token(self, device: torch.device | None = None) -> Float64[Tensor, "c"]:
        """Turns per token of each column."""
        column = torch.arange(self.dim, device=device)
        if self.frequencies == "one":
            radians = torch.ones(self.dim, dtype=torch.float64, device=device)
        elif self.frequencies == "geometric":
            first = column - column % 2 if self.pairing == "quadrature" else column
            radians = self.base ** (-first.double() / self.dim)
        else:
            radians = torch.tensor(self.frequencies, dtype=torch.float64, device=device)
            radians = radians[column // 2] if self.pairing == "quadrature" else radians
        return radians / (2 * math.pi)

    def vectors(self, positions: Positions) -> Float[Tensor, "#b t c"]:
        tokens = self.coordinates(positions).double()
        turns = tokens * self.turns_per_token(tokens.device)
        if self.pairing != "single":
            turns = turns + torch.arange(self.dim, device=tokens.device) % 2 * 0.25
        p = WAVES[self.wave](turns) if isinstance(self.wave, str) else self.wave(turns)
        if p.shape != turns.shape:
            raise ShapeError(
                f"Waveform(wave=...) made {tuple(p.shape)} of turns of shape {tuple(turns.shape)}: "
                "a wave gives one value for each"
            )
        return p

    def _frequency(self, j: int) -> float:
        """Radians per token of column j, as the docstring's table says."""
        first = 2 * (j // 2) if self.pairing == "quadrature" else j
        if self.frequencies == "one":
            return 1.0
        if self.frequencies == "geometric":
            return self.base ** (-first / self.dim)
        return self.frequencies[first // 2 if self.pairing == "quadrature" else j]

    def reference_vectors(self, positions: Float64[Tensor, "b t"]) -> Float64[Tensor, "b t c"]:
        columns = []
        for j in range(self.dim):
            shift = 0.25 if j % 2 and self.pairing != "single" else 0.0
            # Jumps must come at the same positions as in `vectors`, so both round alike.
            turns = positions * (self._frequency(j) / (2 * math.pi)) + shift
            columns.append(self._by_pieces(turns))
        return torch.stack(columns, dim=-1)

    def _by_pieces(self, turns: Float64[Tensor, "b t"]) -> Float64[Tensor, "b t"]:
        if not isinstance(self.wave, str):
            return self.wave(turns).double()
        t = turns - turns.floor()
        falling = torch.where(t < 0.75, 2 - 4 * t, 4 * t - 4)
        return {
            "sine": torch.sin(2 * math.pi * t),
            "triangle": torch.where(t < 0.25, 4 * t, falling),
            "square": torch.where(t < 0.5, 1.0, -1.0).double(),
            "sawtooth": torch.where(t < 0.5, 2 * t, 2 * t - 2),
        }[self.wave]
