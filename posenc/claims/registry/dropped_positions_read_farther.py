from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import TUNED, stretchings, text, tuned
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    ways = stretchings(size)
    return {
        "rotary": text("rotary", size),
        "ntk": text(ways["ntk"], size, steps=0, base="rotary"),
        "yarn": text(ways["yarn"], size, steps=0, base="rotary"),
        "dropped": tuned("none", size, times=1),
    }


CLAIM = Claim(
    name="dropped_positions_read_farther",
    says=(
        "A model whose RoPE is dropped after training, and which is trained a little further at the same length, reads eight times as far better than NTK and YaRN do untrained.",
        "训练后去掉 RoPE、在原长度上再训练一点的模型，读到八倍远，比不再训练的 NTK 与 YaRN 好。",
    ),
    source="Sakana AI 2025 (DroPE), arXiv:2512.12167; SakanaAI/DroPE",
    differs=TUNED,
    agreed=False,
    arms=arms,
    expects=(
        Expectation(Cell("yarn", "loss", 8), Cell("dropped", "loss", 8), above=0.1),
        Expectation(Cell("ntk", "loss", 8), Cell("dropped", "loss", 8), above=0.1),
    ),
)
