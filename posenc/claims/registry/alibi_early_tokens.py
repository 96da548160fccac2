from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
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
        ON_BYTES[0]
        + " Whole windows of 8 times the length must lose less than windows of the train "
        "length, and fixed last bytes must not.",
        ON_BYTES[1] + "八倍长度的整窗，损失要比训练长度的整窗小；固定的最后几个字节，不能变小。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("alibi", "windows"), Cell("alibi", "windows", 8), above=0.0),
        Expectation(Cell("alibi", "loss"), Cell("alibi", "loss", 8), below=0.0),
    ),
)
