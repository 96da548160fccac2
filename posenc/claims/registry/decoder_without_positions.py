from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {"none": text("none", size), "learned": text("learned", size)}


CLAIM = Claim(
    name="decoder_without_positions",
    says=(
        "A decoder without positions is nearly as good as one with learned positions: 20.97 against 20.42 in perplexity, 0.027 nats.",
        "没有位置的解码器几乎不输可学习的位置：困惑度 20.97 对 20.42，差 0.027 nat。",
    ),
    source="Haviv et al. 2022, arXiv:2203.16634 (WikiText-103, 247 million parameters)",
    differs=(
        ON_BYTES[0]
        + " It is said of models that are thousands of times as large, and need not hold here.",
        ON_BYTES[1] + "原文说的是大几千倍的模型，在这里未必成立。",
    ),
    agreed=False,
    arms=arms,
    expects=(Expectation(Cell("none", "loss", 1), Cell("learned", "loss", 1), below=0.1),),
)
