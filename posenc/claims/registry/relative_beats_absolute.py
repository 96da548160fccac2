from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "rotary": text("rotary", size),
        "t5": text("t5", size),
        "sinusoidal": text("sinusoidal", size),
    }


CLAIM = Claim(
    name="relative_beats_absolute",
    says=(
        "At the training length RoPE and T5 have a lower loss than added sinusoids.",
        "在训练长度上，RoPE 与 T5 的损失低于相加的正弦。",
    ),
    source="Press et al. 2022 (ALiBi), arXiv:2108.12409, figure 1: inputs of the training length",
    differs=ON_BYTES,
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("sinusoidal", "loss", 1), Cell("rotary", "loss", 1), above=0.0),
        Expectation(Cell("sinusoidal", "loss", 1), Cell("t5", "loss", 1), above=0.0),
    ),
)
