from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import COPYING, RATES, copying
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "learned": copying("learned", size),
        "sinusoidal": copying("sinusoidal", size),
    }


CLAIM = Claim(
    name="absolute_copies_no_farther",
    says=(
        "With learned or sinusoidal positions a model that copies does not copy inputs half as long again as in training.",
        "用可学习或正弦位置学会复制的模型，比训练长出一半的输入就不会复制了。",
    ),
    source="Kazemnejad et al. 2023, arXiv:2305.19466 (copying)",
    differs=(
        COPYING[0] + " The paper's have 107 million, and copy up to 20 words.",
        COPYING[1] + "论文的有 1.07 亿参数，至多 20 个词。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("learned", times=1.5), below=0.05),
        Expectation(Cell("sinusoidal", times=1.5), below=0.05),
    ),
    rates=RATES,
    learned=0.5,
)
