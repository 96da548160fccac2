from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {"learned": text("learned", size), "sinusoidal": text("sinusoidal", size)}


CLAIM = Claim(
    name="absolute_breaks",
    says=(
        "Learned and sinusoidal positions fail as soon as inputs are longer than in training.",
        "可学习的位置与正弦位置，一超出训练长度就失效。",
    ),
    source="Press et al. 2022 (ALiBi), arXiv:2108.12409, figure 1",
    differs=(
        ON_BYTES[0] + " Fails means 1 nat per byte at twice the length.",
        ON_BYTES[1] + "“失效”指在两倍长度上每字节多损失 1 nat。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("learned", "loss", 2), Cell("learned", "loss"), above=1.0),
        Expectation(Cell("sinusoidal", "loss", 2), Cell("sinusoidal", "loss"), above=1.0),
    ),
)
