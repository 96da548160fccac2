from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {name: text(name, size) for name in ("learned", "sinusoidal")}


CLAIM = Claim(
    name="absolute_breaks",
    says=(
        "Learned and sinusoidal positions fail as soon as inputs are longer than in training.",
        "可学习的位置与正弦位置，一超出训练长度就失效。",
    ),
    source="Press et al. 2022 (ALiBi), arXiv:2108.12409, figure 1",
    differs=(
        "Models of 33 thousand parameters read bytes of Python, 64 at a time, where the paper's "
        "have 247 million and read WikiText-103; fails means 1 nat per byte at twice the length.",
        "这里的模型有 3.3 万个参数，每次读 64 字节的 Python 源码；论文的有 2.47 亿，读 WikiText-103。"
        "“失效”指在两倍长度上每字节多损失 1 nat。",
    ),
    agreed=True,
    arms=arms,
    expects=tuple(
        Expectation(Cell(name, "loss", 2), Cell(name, "loss"), above=1.0)
        for name in ("learned", "sinusoidal")
    ),
)
