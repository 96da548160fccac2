from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import TUNED, stretchings, text, tuned
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    found = {"rotary": text("rotary", size)}
    return found | {name: tuned(encoding, size) for name, encoding in stretchings(size).items()}


CLAIM = Claim(
    name="tuned_linear_catches_up",
    says=(
        "Trained a little further at eight times the length, linear interpolation does no worse there than NTK and YaRN.",
        "在八倍长度上再训练一点之后，线性插值在那里不比 NTK 与 YaRN 差。",
    ),
    source="Chen et al. 2023 (position interpolation), arXiv:2306.15595; jquesnelle/yarn, data (Llama 2 trained at twice its length)",
    differs=TUNED,
    agreed=False,
    arms=arms,
    expects=(
        Expectation(Cell("linear", "loss", 8), Cell("ntk", "loss", 8), below=0.05),
        Expectation(Cell("linear", "loss", 8), Cell("yarn", "loss", 8), below=0.05),
    ),
)
