from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import COUNTING, RATES, counting
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {"cope": counting("cope", size), "rotary": counting("rotary", size)}


CLAIM = Claim(
    name="cope_counts_no_farther",
    says=(
        "At twice the training length CoPE counts no better than RoPE, and both fail: 45.6% and 45.2% are right, of 94.8% and 93.2% at the training length.",
        "到训练长度的两倍，CoPE 计数不比 RoPE 好，两者都失败：答对 45.6% 与 45.2%，训练长度上是 94.8% 与 93.2%。",
    ),
    source="github.com/JiaVMode/CoPE-vs-RoPE (selective counting, trained at 1024)",
    differs=(
        COUNTING[0] + " No better means by less than 10 points, and failing is 0.6 and less.",
        COUNTING[1] + "“不比它好”指好不到 10 个百分点，“失败”指不到 0.6。",
    ),
    agreed=False,
    arms=arms,
    expects=(
        Expectation(Cell("cope", times=2), Cell("rotary", times=2), below=0.1),
        Expectation(Cell("cope", times=2), below=0.6),
        Expectation(Cell("rotary", times=2), below=0.6),
    ),
    rates=RATES,
    learned=0.8,
)
