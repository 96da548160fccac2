from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import LENGTH, ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "rotary": text("rotary", size),
        "linear": text("rotary(scaling=Linear(8))", size, steps=0, base="rotary"),
        "ntk": text("rotary(scaling=NTK(8))", size, steps=0, base="rotary"),
        "yarn": text(f"rotary(scaling=YaRN(8, {LENGTH[size]}))", size, steps=0, base="rotary"),
    }


CLAIM = Claim(
    name="stretching_helps_untrained",
    says=(
        "Linear interpolation, NTK and YaRN help a trained RoPE read eight times as far without training it further.",
        "线性插值、NTK 与 YaRN，不用再训练，就能让训练好的 RoPE 读到八倍远时好一些。",
    ),
    source="Chen et al. 2023 (position interpolation), arXiv:2306.15595; Peng et al. 2024 (YaRN), arXiv:2309.00071",
    differs=ON_BYTES,
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("rotary", "loss", 8), Cell("linear", "loss", 8), above=0.2),
        Expectation(Cell("rotary", "loss", 8), Cell("ntk", "loss", 8), above=0.2),
        Expectation(Cell("rotary", "loss", 8), Cell("yarn", "loss", 8), above=0.2),
    ),
)
