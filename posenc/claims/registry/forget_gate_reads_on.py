from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {"forget_gate": text("forget_gate", size)}


CLAIM = Claim(
    name="forget_gate_reads_on",
    says=(
        "A Transformer with forget gates keeps its loss beyond the training length.",
        "带遗忘门的 Transformer，在训练长度以外损失不变。",
    ),
    source="Lin et al. 2025 (Forgetting Transformer), arXiv:2503.02130 (loss by position)",
    differs=ON_BYTES,
    agreed=True,
    arms=arms,
    expects=(Expectation(Cell("forget_gate", "loss", 8), Cell("forget_gate", "loss"), below=0.05),),
)
