from dataclasses import replace

from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import RATES, made
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    alibi = made("alibi", "needle", size, train=32, times=(1, 16))
    alibi = replace(alibi, steps=600) if size == "small" else alibi
    tested = replace(alibi, steps=0, base="alibi")
    return {
        "alibi": alibi,
        "near": replace(tested, task="needle(depth=1.0)"),
        "far": replace(tested, task="needle(depth=0.0)"),
    }


CLAIM = Claim(
    name="alibi_loses_far_needles",
    says=(
        "A model with ALiBi does not find again what stands far back in texts longer than in training.",
        "用 ALiBi 的模型，读比训练更长的文本，找不回很靠前的东西。",
    ),
    source="SakanaAI/DroPE 2025 (needles at twice the training length: ALiBi finds 5.2%, 0% and 1.1% of three kinds)",
    differs=(
        "A model of two layers finds a letter among up to 32 others; the same weights look for it among 512, where it stands last or first, and must find it 30 points less often there. The source's needles are sentences in long texts.",
        "两层的模型在至多 32 个别的字母中找一个；同样的权重再到 512 个中去找，它排在最后，或者最前，排在最前时须少找到 30 个百分点。出处找的是长文本中的句子。",
    ),
    agreed=False,
    arms=arms,
    expects=(
        Expectation(Cell("alibi"), above=0.8),
        Expectation(Cell("near", times=16), Cell("far", times=16), above=0.3),
    ),
    rates=RATES,
)
