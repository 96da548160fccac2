from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "kerple": text("kerple", size),
        "sandwich": text("sandwich", size),
        "rotary": text("rotary", size),
    }


CLAIM = Claim(
    name="kerple_and_sandwich_hold",
    says=(
        "Kernels of the distance, KERPLE and Sandwich, keep their loss beyond the training length, and RoPE does not.",
        "距离的核（KERPLE 与 Sandwich）在训练长度以外损失不变，RoPE 则不然。",
    ),
    source="Chi et al. 2022 (KERPLE), arXiv:2205.09921; Chi et al. 2023 (Sandwich), arXiv:2212.10356",
    differs=ON_BYTES,
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("kerple", "loss", 8), Cell("kerple", "loss"), below=0.05),
        Expectation(Cell("sandwich", "loss", 8), Cell("sandwich", "loss"), below=0.05),
        Expectation(Cell("rotary", "loss", 8), Cell("rotary", "loss"), above=0.5),
    ),
)
