from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "rotary": text("rotary", size),
        "linear": text("rotary(scaling=Linear(8))", size, steps=0, base="rotary"),
        "ntk": text("rotary(scaling=NTK(8))", size, steps=0, base="rotary"),
    }


CLAIM = Claim(
    name="ntk_beats_linear_untrained",
    says=(
        "Without further training NTK loses less than linear interpolation at eight times the length.",
        "不再训练时，在八倍长度上，NTK 比线性插值损失小。",
    ),
    source='bloc97 2023, "NTK-aware scaled RoPE"; Peng et al. 2024 (YaRN), arXiv:2309.00071',
    differs=ON_BYTES,
    agreed=True,
    arms=arms,
    expects=(Expectation(Cell("linear", "loss", 8), Cell("ntk", "loss", 8), above=0.2),),
)
