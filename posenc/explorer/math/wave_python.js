// Python for a wave that was drawn or typed.
const HELPERS = {
  square: `def square(t: Tensor) -> Tensor:
    return 1 - 2 * (t % 1 >= 0.5).to(t.dtype)`,
  triangle: `def triangle(t: Tensor) -> Tensor:
    return 1 - 4 * ((t + 0.25) % 1 - 0.5).abs()`,
  sawtooth: `def sawtooth(t: Tensor) -> Tensor:
    return 2 * (t % 1) - 2 * (t % 1 >= 0.5).to(t.dtype)`,
};

function waveText(wave, s) {
  if (wave.points) {
    const number = (x) => (Number.isInteger(x) ? `${x}.0` : String(x));
    const rows = [0, 8].map((from) => wave.points.slice(from, from + 8).map(number).join(", ")).filter(Boolean);
    return `POINTS = (
    ${rows.join(",\n    ")},
)


def wave(turns: Tensor) -> Tensor:
    """Straight lines through POINTS, at equal steps of a turn."""
    points = torch.tensor(POINTS, dtype=turns.dtype, device=turns.device)
    at = turns % 1 * len(points)
    below = at.floor().clamp(max=len(points) - 1)
    start, end = points[below.long()], points.roll(-1)[below.long()]
    return start + (end - start) * (at - below)`;
  }
  const helpers = wave.helpers.map((name) => `${HELPERS[name]}\n\n\n`).join("");
  return `${helpers}def wave(turns: Tensor) -> Tensor:
    """${s.expression.trim().replace(/\s+/g, " ")}"""
    return ${wave.torch}`;
}

/** A class of its own for a wave, with what the panel checks: `count` rows, moved by `step`. */
export function waveInPython(wave, s, count, step) {
  return `"""A wave of your own: save this as own_wave.py, then run posenc check own_wave:OwnWave."""

from collections.abc import Iterator

import torch
from torch import Tensor

import posenc as pe
from posenc.analysis import measure


${waveText(wave, s)}


class OwnWave(pe.Waveform):
    """Waves of a form of one's own, added to the embeddings.

        p[pos, j] = wave(pos * f[j] / (2 pi) + shift[j])

    f and shift are those of posenc.Waveform, with pairing "${s.pairing}" and frequencies
    "${s.frequencies}".

    Source: the posenc explorer, panel own_wave.
    """

    name = "own_wave"
    paper = "the posenc explorer"

    def __init__(self, dim: int, base: float = ${s.base}, merge: str = "add") -> None:
        super().__init__(dim, wave, "${s.pairing}", "${s.frequencies}", base, merge)

    @classmethod
    def for_model(cls, *, model_dim: int, **_: object) -> "OwnWave":
        return cls(model_dim)

    @classmethod
    def examples(cls) -> Iterator["OwnWave"]:
        yield cls(16)


if __name__ == "__main__":
    own = OwnWave(${s.dims})
    table = measure.position_table(own, ${count})
    pairs = [table[:, j : j + 2] for j in range(0, ${s.dims}, 2)]
    products = measure.by_distance(measure.inner_products(table[:256]))
    itself = products.mean[products.distance == 0].item()
    print("different rows:", measure.uniqueness((table * 1e9).round()).distinct, "of", len(table))
    print("largest number:", measure.boundedness(table)[-1].item())
    print("left after a shift by ${step}:", max(measure.shift(pair, ${step}).residual for pair in pairs))
    print("spread of products at one distance:", products.spread.max().item() / itself)
`;
}
