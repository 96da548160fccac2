from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import TUNED, stretchings, text, tuned
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    linear = stretchings(size)["linear"]
    short = text("rotary", size)
    skipping = f"skipping(longest={max(short.test_lengths)})"
    return {
        "rotary": short,
        "linear": text(linear, size, steps=0, base="rotary"),
        "full": tuned(linear, size),
        "skipping": tuned(linear, size, times=1, positions=skipping),
    }


CLAIM = Claim(
    name="skipping_serves_as_length",
    says=(
        "Short texts whose positions skip ahead (PoSE) tune linear interpolation to eight times the length nearly as well as texts of that length.",
        "位置向前跳的短文本（PoSE），把线性插值调到八倍长度，几乎同那么长的文本一样好。",
    ),
    source="Zhu et al. 2024 (PoSE), arXiv:2309.10400",
    differs=TUNED,
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("skipping", "loss", 8), Cell("full", "loss", 8), below=0.1),
        Expectation(Cell("linear", "loss", 8), Cell("skipping", "loss", 8), above=0.2),
    ),
)
