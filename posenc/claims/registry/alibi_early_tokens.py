from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {"alibi": text("alibi", size)}


CLAIM = Claim(
    name="alibi_early_tokens",
    says=(
        "What ALiBi gains from longer inputs is that fewer tokens have little before them, not "
        "that it makes use of the longer context.",
        "ALiBi 从更长的输入中得到的好处，是前文很少的词元变少了，而不是用上了更长的前文。",
    ),
    source="Press et al. 2022 (ALiBi), arXiv:2108.12409, appendix B",
    differs=(
        "Small models on bytes. Whole windows of 8 times the length must gain more than 0.02 nats "
        "per byte over windows of the train length, fixed last bytes less than 0.01.",
        "小模型，读字节。八倍长度的整窗要比训练长度的整窗每字节少损失 0.02 nat 以上；"
        "固定的最后几个字节，少损失不到 0.01。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("alibi", "windows"), Cell("alibi", "windows", 8), above=0.02),
        Expectation(Cell("alibi", "loss"), Cell("alibi", "loss", 8), below=0.01),
    ),
)
