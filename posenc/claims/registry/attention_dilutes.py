from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import RATES, made
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "none": made("none", "maximum", size, train=16, times=(1, 4, 16), dim=32, depth=1, heads=2),
        "rotary": made(
            "rotary", "maximum", size, train=16, times=(1, 4, 16), dim=32, depth=1, heads=2
        ),
        "alibi": made(
            "alibi", "maximum", size, train=16, times=(1, 4, 16), dim=32, depth=1, heads=2
        ),
    }


CLAIM = Claim(
    name="attention_dilutes",
    says=(
        "Whatever the encoding, and without any, finding the largest of many items gets worse as there are more of them than in training.",
        "不论用什么编码，或者不用编码，从比训练时更多的项中找最大的一项，越多越差。",
    ),
    source='Velickovic et al. 2024 ("softmax is not enough"), arXiv:2410.01104',
    differs=(
        "One layer of an encoder; priorities are 32 tokens, and the largest is alone, so that attention has an easier time than in the paper.",
        "编码器一层；优先级是 32 种词元，最大的只有一个，所以比论文里容易。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("none"), Cell("none", times=16), above=0.05),
        Expectation(Cell("rotary"), Cell("rotary", times=16), above=0.05),
        Expectation(Cell("alibi"), Cell("alibi", times=16), above=0.05),
    ),
    rates=RATES,
    learned=0.8,
)
