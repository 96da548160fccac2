from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "eight": text("rotary", size),
        "sixteen": text("rotary", size, heads=2 if size == "small" else 4),
    }


CLAIM = Claim(
    name="head_size_decides",
    says=(
        "How far RoPE carries depends on the size of a head: with heads of 8 dimensions it holds to twice the training length, with heads of 16 it does not.",
        "RoPE 能带多远取决于头的大小：8 维的头能保持到两倍训练长度，16 维的头不能。",
    ),
    source="posenc/lab/LOG.md, 2026-11-21; one reason why published figures of RoPE at twice the length lie between 1.07 and 18.9 times",
    differs=(
        ON_BYTES[0].replace(" of 8 dimensions", " of 8 dimensions or of 16")
        + " With other bases and lengths it is otherwise: see turned_pairs_decide.",
        ON_BYTES[1].replace("头 8 维", "头 8 维或 16 维")
        + "换别的基数和长度就不是这样，见 turned_pairs_decide。",
    ),
    agreed=False,
    arms=arms,
    expects=(
        Expectation(Cell("eight", "loss", 2), Cell("eight", "loss"), below=0.1),
        Expectation(Cell("sixteen", "loss", 2), Cell("sixteen", "loss"), above=0.3),
    ),
)
