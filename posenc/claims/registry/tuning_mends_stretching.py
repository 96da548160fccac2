from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import TUNED, stretchings, text, tuned
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    found = {"rotary": text("rotary", size)}
    for name, encoding in stretchings(size).items():
        found[name] = text(encoding, size, steps=0, base="rotary")
        found[f"{name}_tuned"] = tuned(encoding, size)
    return found


CLAIM = Claim(
    name="tuning_mends_stretching",
    says=(
        "Trained a little further at eight times the length, linear interpolation, NTK and YaRN all read it far better than untrained.",
        "在八倍长度上再训练一点，线性插值、NTK 与 YaRN 在那里都比不再训练好得多。",
    ),
    source="Chen et al. 2023 (position interpolation), arXiv:2306.15595; Peng et al. 2024 (YaRN), arXiv:2309.00071",
    differs=TUNED,
    agreed=True,
    arms=arms,
    expects=tuple(
        Expectation(Cell(name, "loss", 8), Cell(f"{name}_tuned", "loss", 8), above=0.2)
        for name in stretchings("small")
    ),
)
