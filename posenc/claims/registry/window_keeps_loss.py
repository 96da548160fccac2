from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import LENGTH, ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "rotary": text("rotary", size),
        "window": text(f"window(width={LENGTH[size]}) + rotary", size, steps=0, base="rotary"),
    }


CLAIM = Claim(
    name="window_keeps_loss",
    says=(
        "A trained RoPE that is given a window of its training length keeps its loss at eight times the length.",
        "给训练好的 RoPE 加一个训练长度的窗口，在八倍长度上损失不变。",
    ),
    source="Xiao et al. 2024 (StreamingLLM), arXiv:2309.17453 (windows that are computed again); posenc docs, howto/extend.md",
    differs=ON_BYTES,
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("window", "loss", 8), Cell("rotary", "loss", 1), below=0.1),
        Expectation(Cell("rotary", "loss", 8), Cell("window", "loss", 8), above=0.5),
    ),
)
