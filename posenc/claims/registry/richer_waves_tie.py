from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "sinusoidal": text("sinusoidal", size),
        "triangle": text("waveform", size),
        "square": text("waveform(wave='square')", size),
    }


CLAIM = Claim(
    name="richer_waves_tie",
    says=(
        "Waves with a richer spectrum than the sine serve as well in its place: the triangle and the square.",
        "频谱比正弦更丰富的波（三角波、方波），代替正弦一样好。",
    ),
    source="posenc/lab/LOG.md, 2026-11-23: waves in place of the sinusoid of Vaswani et al. 2017",
    differs=ON_BYTES,
    agreed=False,
    arms=arms,
    expects=(
        Expectation(
            Cell("triangle", "loss", 1), Cell("sinusoidal", "loss", 1), above=-0.05, below=0.05
        ),
        Expectation(
            Cell("square", "loss", 1), Cell("sinusoidal", "loss", 1), above=-0.05, below=0.05
        ),
    ),
)
