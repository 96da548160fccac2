from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import RATES, made
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "learned": made("learned", "copy(letters=14)", size),
        "sinusoidal": made("sinusoidal", "copy(letters=14)", size),
    }


CLAIM = Claim(
    name="absolute_copies_no_farther",
    says=(
        "With learned or sinusoidal positions a model that copies does not copy inputs a fifth longer than in training.",
        "用可学习或正弦位置学会复制的模型，比训练长出五分之一的输入就不会复制了。",
    ),
    source="Kazemnejad et al. 2023, arXiv:2305.19466 (copying)",
    differs=(
        "Models of 0.1 million parameters copy up to 10 letters of 14, where the paper has 107 million and up to 20 words.",
        "0.1 百万参数的模型复制至多 10 个字母（共 14 种）；论文的有 1.07 亿参数，至多 20 个词。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("learned", times=1.2), below=0.05),
        Expectation(Cell("sinusoidal", times=1.2), below=0.05),
    ),
    seeds=10,
    rates=RATES,
    learned=0.5,
)
