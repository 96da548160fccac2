from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import LENGTH, ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "rotary": text("rotary", size),
        "rerope": text(f"rerope(window={LENGTH[size]})", size, steps=0, base="rotary"),
    }


CLAIM = Claim(
    name="rerope_untrained",
    says=(
        "RoPE whose distances stop at the training length reads eight times as far at almost no loss, without further training.",
        "距离止于训练长度的 RoPE，不用再训练，读到八倍远也几乎不损失。",
    ),
    source='Su 2023, "ReRoPE", kexue.fm/archives/9708 (Llama 2)',
    differs=ON_BYTES,
    agreed=True,
    arms=arms,
    expects=(Expectation(Cell("rerope", "loss", 8), Cell("rotary", "loss", 1), below=0.2),),
)
