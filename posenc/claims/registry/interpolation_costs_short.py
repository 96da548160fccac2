from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "rotary": text("rotary", size),
        "linear": text("rotary(scaling=Linear(8))", size, steps=0, base="rotary"),
    }


CLAIM = Claim(
    name="interpolation_costs_short",
    says=(
        "Linear interpolation without further training makes short inputs worse.",
        "线性插值若不再训练，会让短输入变差。",
    ),
    source="Chen et al. 2023 (position interpolation), arXiv:2306.15595; Peng et al. 2024 (YaRN), arXiv:2309.00071",
    differs=ON_BYTES,
    agreed=True,
    arms=arms,
    expects=(Expectation(Cell("linear", "loss", 1), Cell("rotary", "loss", 1), above=0.1),),
)
