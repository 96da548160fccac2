from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import RATES, made
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "rotary": made("rotary", "needle", size, train=32, times=(1, 2)),
        "window": made(
            "window(width=8) + rotary",
            "needle",
            size,
            train=32,
            times=(1, 2),
            steps=0,
            base="rotary",
        ),
    }


CLAIM = Claim(
    name="window_loses_recall",
    says=(
        "A window loses what stands before it, although it keeps the loss on text (window_keeps_loss): a letter farther back is not found again.",
        "窗口虽在文本上保住损失（见 window_keeps_loss），却丢掉窗口之前的东西：更靠前的字母再也找不回来。",
    ),
    source="Xiao et al. 2024 (StreamingLLM), arXiv:2309.17453; mit-han-lab/streaming-llm, README (questions)",
    differs=(
        "A small model finds a letter among 32 others; the same weights then see eight tokens. Two layers pass on what the first has seen, so a window of 8 reaches 14 back. The loss on text is not run here.",
        "小模型在 32 个别的字母中找一个；同样的权重再只看八个词元。两层可以传话，8 的窗口能够到 14 个以前。文本上的损失不在这里运行。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("rotary"), above=0.9),
        Expectation(Cell("rotary"), Cell("window"), above=0.3),
    ),
    rates=RATES,
)
