from dataclasses import replace

from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import made
from posenc.lab.config import RunConfig

# One digit more than the six of training.
LONGER = 1.17


def arms(size: Size) -> dict[str, RunConfig]:
    times = (1, LONGER, 1.34, 1.5, 2)
    counted = made("rotary", "addition(base=2)", size, train=6, times=times)
    coupled = replace(counted, task="addition(coupled=True, limit=24, base=2)")
    return {"coupled": coupled, "counted": counted}


CLAIM = Claim(
    name="coupled_positions_add",
    says=(
        "A model that gives digits of the same worth the same position adds longer numbers than in training, and one that counts positions does not.",
        "让同一位的数字共用一个位置的模型，能加比训练时更长的数；逐个计数位置的，不能。",
    ),
    source="Cho et al. 2024 (position coupling), arXiv:2405.20671; HanseulJo/position-coupling (30 digits in training, 200 in tests)",
    differs=(
        "Models of 0.1 million parameters with RoPE add numbers of up to 6 binary digits, and then of 7; the source has decimal digits and added positions. Adding longer numbers means that one sum in five is right, and not adding them that of ten sums at least one more is wrong.",
        "0.1 百万参数的 RoPE 模型加至多 6 位的二进制数，再加 7 位的；出处用十进制和相加的位置。“能”指五次答对一次，“不能”指十次至少多错一次。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("coupled"), above=0.8),
        Expectation(Cell("coupled", times=LONGER), above=0.2),
        Expectation(Cell("coupled", times=LONGER), Cell("counted", times=LONGER), above=0.1),
    ),
)
