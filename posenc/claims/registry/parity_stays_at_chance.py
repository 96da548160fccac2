from dataclasses import replace

from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import RATES, made
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    config = made("none", "parity", size, train=16, times=(1, 2, 4), dim=32)
    if size == "small":
        config = replace(config, steps=750)
    names = ("none", "sinusoidal", "rotary", "alibi")
    return {name: replace(config, encoding=name) for name in names}


CLAIM = Claim(
    name="parity_stays_at_chance",
    says=(
        "With no encoding does a small Transformer tell the parity of more bits than in training better than chance: a control, for whoever does has a leak.",
        "不论哪种编码，小 Transformer 对比训练更多的位，判断奇偶都不比碰运气好：这是对照，谁做到了就是有泄漏。",
    ),
    source="Ruoss et al. 2023, arXiv:2305.16843 (parity check); Deletang et al. 2023, arXiv:2207.02098",
    differs=(
        "Encoders of two layers and 32 dimensions, up to 16 bits, tested at 64.",
        "两层、32 维的编码器，至多 16 位，测 64 位。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("none", times=4), below=0.6),
        Expectation(Cell("sinusoidal", times=4), below=0.6),
        Expectation(Cell("rotary", times=4), below=0.6),
        Expectation(Cell("alibi", times=4), below=0.6),
    ),
    rates=RATES,
)
