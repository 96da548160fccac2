from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {"alibi": text("alibi", size)}


CLAIM = Claim(
    name="alibi_extrapolates",
    says=(
        "A model with ALiBi keeps its loss on inputs several times as long as in training.",
        "用 ALiBi 的模型，读几倍于训练长度的输入，损失不变。",
    ),
    source="Press et al. 2022 (ALiBi), arXiv:2108.12409, figure 1 and table 2",
    differs=(
        "Small models on bytes; the loss is of fixed last bytes, read with more and more before "
        "them, so that it cannot gain by having fewer early tokens.",
        "小模型，读字节；损失取固定的最后几个字节，只增加它们前面的文本，所以不会因为开头的词元变少而变好。",
    ),
    agreed=True,
    arms=arms,
    expects=(Expectation(Cell("alibi", "loss", 8), Cell("alibi", "loss"), below=0.05),),
)
