from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import COPYING, RATES, copying
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {name: copying(name, size) for name in ("hard_alibi", "alibi", "rotary")}


CLAIM = Claim(
    name="hard_alibi_copies_farther",
    says=(
        "A decoder with hard-ALiBi, where some heads see the nearest tokens alone, copies longer inputs than one with RoPE or ALiBi.",
        "用 hard-ALiBi 的解码器（一部分头只看最近的几个词元），比用 RoPE 或 ALiBi 的能复制更长的输入。",
    ),
    source="Jelassi et al. 2024, arXiv:2402.01032 (copying of longer strings); sjelassi/transformers_ssm_copy, synthetic_exps",
    differs=(
        COPYING[0] + " Two of four heads have windows, of 1 and 2 tokens.",
        COPYING[1] + "四个头中有两个带窗口，分别是 1 和 2 个词元。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("hard_alibi", times=1.25), Cell("rotary", times=1.25), above=0.0),
        Expectation(Cell("hard_alibi", times=1.25), Cell("alibi", times=1.25), above=0.0),
    ),
    seeds=10,
    rates=RATES,
    learned=0.5,
)
