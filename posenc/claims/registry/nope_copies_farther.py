from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import RATES, made
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "none": made("none", "copy(letters=14)", size),
        "rotary": made("rotary", "copy(letters=14)", size),
        "quarter": made("rotary(rotary_dim=4)", "copy(letters=14)", size),
    }


CLAIM = Claim(
    name="nope_copies_farther",
    says=(
        "A decoder without positions copies longer inputs than one with RoPE.",
        "没有位置的解码器，比用 RoPE 的能复制更长的输入。",
    ),
    source="Kazemnejad et al. 2023, arXiv:2305.19466 (mean reciprocal rank: none .69, rotary .33, where rotary turns a quarter of the dimensions)",
    differs=(
        "Models of 0.1 million parameters copy up to 10 letters of 14; RoPE turns all dimensions, and a quarter of them as in the paper.",
        "0.1 百万参数的模型复制至多 10 个字母（共 14 种）；RoPE 旋转全部维度，另一组像论文那样只旋转四分之一。",
    ),
    agreed=False,
    arms=arms,
    expects=(
        Expectation(Cell("none", times=1.2), Cell("rotary", times=1.2), above=0.0),
        Expectation(Cell("none", times=1.2), Cell("quarter", times=1.2), above=0.0),
    ),
    seeds=10,
    rates=RATES,
    learned=0.5,
)
