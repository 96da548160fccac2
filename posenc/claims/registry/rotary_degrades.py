from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {"rotary": text("rotary", size)}


CLAIM = Claim(
    name="rotary_degrades",
    says=(
        "A model with RoPE loses much on inputs several times as long as in training.",
        "用 RoPE 的模型，读几倍于训练长度的输入，损失大增。",
    ),
    source="Press et al. 2022 (ALiBi), arXiv:2108.12409, figure 1; Chen et al. 2023, arXiv:2306.15595",
    differs=ON_BYTES,
    agreed=True,
    arms=arms,
    expects=(Expectation(Cell("rotary", "loss", 8), Cell("rotary", "loss"), above=0.5),),
)
