from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import COPYING, RATES, copying
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "none": copying("none", size),
        "rotary": copying("rotary", size),
        "quarter": copying("rotary(rotary_dim=4)", size),
    }


CLAIM = Claim(
    name="nope_copies_farther",
    says=(
        "A decoder without positions copies longer inputs than one with RoPE.",
        "没有位置的解码器，比用 RoPE 的能复制更长的输入。",
    ),
    source="Kazemnejad et al. 2023, arXiv:2305.19466 (mean reciprocal rank: none .69, rotary .33, where rotary turns a quarter of the dimensions)",
    differs=(
        COPYING[0] + " RoPE turns all dimensions, and a quarter of them as in the paper.",
        COPYING[1] + "RoPE 旋转全部维度，另一组像论文那样只旋转四分之一。",
    ),
    agreed=False,
    arms=arms,
    expects=(
        Expectation(Cell("none", times=1.25), Cell("rotary", times=1.25), above=0.0),
        Expectation(Cell("none", times=1.25), Cell("quarter", times=1.25), above=0.0),
    ),
    seeds=10,
    rates=RATES,
    learned=0.5,
)
