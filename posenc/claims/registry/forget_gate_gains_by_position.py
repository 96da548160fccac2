from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {"forget_gate": text("forget_gate", size), "rotary": text("rotary", size)}


CLAIM = Claim(
    name="forget_gate_gains_by_position",
    says=(
        "With forget gates the loss goes on falling with the position beyond the training length; with RoPE it rises.",
        "带遗忘门时，在训练长度以外，位置越靠后损失仍越低；用 RoPE 时则升高。",
    ),
    source="Lin et al. 2025 (Forgetting Transformer), arXiv:2503.02130 (loss by position)",
    differs=(
        ON_BYTES[0]
        + " Here whole windows of 8 times the length are read: bytes of the second half against bytes 32 to 64, which are other text for both models.",
        ON_BYTES[1]
        + "这里读八倍长度的整窗，拿后一半的字节与第 32 到 64 个字节比；两段文本不同，但两个模型读的一样。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("forget_gate", "position", 8), Cell("forget_gate", "position"), below=0.0),
        Expectation(Cell("rotary", "position", 8), Cell("rotary", "position"), above=0.0),
    ),
)
