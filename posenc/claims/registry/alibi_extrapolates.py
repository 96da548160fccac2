from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {"alibi": text("alibi", size)}


CLAIM = Claim(
    name="alibi_extrapolates",
    says=(
        "A model with ALiBi keeps its loss on inputs several times as long as in training.",
        "用 ALiBi 的模型，读几倍于训练长度的输入，损失不变。",
    ),
    source="Press et al. 2022 (ALiBi), arXiv:2108.12409, figure 1",
    differs=ON_BYTES,
    agreed=True,
    arms=arms,
    expects=(Expectation(Cell("alibi", "loss", 8), Cell("alibi", "loss"), below=0.05),),
)
