from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import COPYING, RATES, copying
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "alibi": copying("alibi", size),
        "rotary": copying("rotary", size),
    }


CLAIM = Claim(
    name="alibi_copies_farther",
    says=(
        "A decoder with ALiBi copies longer inputs than one with RoPE.",
        "用 ALiBi 的解码器，比用 RoPE 的能复制更长的输入。",
    ),
    source="Kazemnejad et al. 2023, arXiv:2305.19466 (mean reciprocal rank: ALiBi .50, rotary .33)",
    differs=(
        COPYING[0] + " RoPE turns all dimensions, not a quarter of them.",
        COPYING[1] + "RoPE 旋转全部维度，而不是四分之一。",
    ),
    agreed=True,
    arms=arms,
    expects=(Expectation(Cell("alibi", times=1.25), Cell("rotary", times=1.25), above=0.0),),
    seeds=10,
    rates=RATES,
    learned=0.5,
)
