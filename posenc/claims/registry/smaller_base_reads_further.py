from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "rotary": text("rotary", size),
        "small": text(f"rotary(base={10 if size == 'small' else 80})", size),
    }


CLAIM = Claim(
    name="smaller_base_reads_further",
    says=(
        "A RoPE base so small that every pair turns round within the training length carries further than 10000.",
        "基数小到每一对都在训练长度内转完一圈的 RoPE，比 10000 带得更远。",
    ),
    source='Liu et al. 2024, "Scaling laws of RoPE-based extrapolation", arXiv:2310.05209',
    differs=ON_BYTES,
    agreed=False,
    arms=arms,
    expects=(Expectation(Cell("rotary", "loss", 8), Cell("small", "loss", 8), above=0.2),),
)
