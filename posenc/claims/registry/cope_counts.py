from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import COUNTING, RATES, counting
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {"cope": counting("cope", size), "rotary": counting("rotary", size)}


CLAIM = Claim(
    name="cope_counts",
    says=(
        "CoPE, whose positions count the tokens that a query picks out, counts better than RoPE.",
        "CoPE 的位置是数查询挑出的词元，计数比 RoPE 好。",
    ),
    source="Golovneva et al. 2024 (CoPE), arXiv:2405.18719 (counting)",
    differs=COUNTING,
    agreed=False,
    arms=arms,
    expects=(Expectation(Cell("cope"), Cell("rotary"), above=0.0),),
    rates=RATES,
)
