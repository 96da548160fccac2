from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import RATES, made
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "none": made(
            "none", "offset", size, train=16, times=(1, 2), dim=32, depth=1, heads=1, steps=800
        ),
        "rotary": made(
            "rotary", "offset", size, train=16, times=(1, 2), dim=32, depth=1, heads=1, steps=800
        ),
        "t5": made(
            "t5", "offset", size, train=16, times=(1, 2), dim=32, depth=1, heads=1, steps=800
        ),
    }


CLAIM = Claim(
    name="one_layer_without_position",
    says=(
        "One layer without positions cannot say the token before, not even at the training length; with RoPE or T5 it can.",
        "没有位置的一层，说不出前一个词元，连训练长度上也不行；有 RoPE 或 T5 就可以。",
    ),
    source="Barbero et al. 2024 (p-RoPE), arXiv:2410.06205, proposition 5.2",
    differs=(
        "One layer with one head of 32 dimensions is asked for the last of 16 letters, which come again and again. Cannot means that less than half of the answers are right; a guess is right once in 16.",
        "一层、一个 32 维的头，要说出 16 个字母中的最后一个；字母反复出现。“说不出”指答对不到一半；瞎猜 16 次能对一次。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("none"), below=0.5),
        Expectation(Cell("rotary"), above=0.9),
        Expectation(Cell("t5"), above=0.9),
    ),
    rates=RATES,
)
