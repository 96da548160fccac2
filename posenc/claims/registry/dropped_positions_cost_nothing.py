from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import TUNED, text, tuned
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {"rotary": text("rotary", size), "dropped": tuned("none", size, times=1)}


CLAIM = Claim(
    name="dropped_positions_cost_nothing",
    says=(
        "A model whose RoPE is dropped after training soon does as well as before at the training length.",
        "训练后去掉 RoPE 的模型，很快就能在训练长度上做得同原来一样好。",
    ),
    source="Sakana AI 2025 (DroPE), arXiv:2512.12167; SakanaAI/DroPE",
    differs=TUNED,
    agreed=False,
    arms=arms,
    expects=(Expectation(Cell("dropped", "loss"), Cell("rotary", "loss"), below=0.1),),
)
