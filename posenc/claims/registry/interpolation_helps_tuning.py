from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import TUNED, stretchings, text, tuned
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "rotary": text("rotary", size),
        "plain": tuned("rotary", size),
        "linear": tuned(stretchings(size)["linear"], size),
    }


CLAIM = Claim(
    name="interpolation_helps_tuning",
    says=(
        "Trained a little further at eight times the length, RoPE reads it better with linear interpolation than without.",
        "在八倍长度上再训练一点，RoPE 带上线性插值，在那里比不带的好。",
    ),
    source="Chen et al. 2023 (position interpolation), arXiv:2306.15595, tables 1 and 4",
    differs=TUNED,
    agreed=True,
    arms=arms,
    expects=(Expectation(Cell("plain", "loss", 8), Cell("linear", "loss", 8), above=0.2),),
)
