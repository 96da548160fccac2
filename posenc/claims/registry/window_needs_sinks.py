from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import LENGTH, ON_BYTES, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "rotary": text("rotary", size),
        "window": text(f"window(width={LENGTH[size]}) + rotary", size, steps=0, base="rotary"),
        "sinks": text(f"lm_infinite(window={LENGTH[size]}, sinks=4)", size, steps=0, base="rotary"),
    }


CLAIM = Claim(
    name="window_needs_sinks",
    says=(
        "A window that lets go of the first tokens ruins the loss, and four sinks restore it: 3359.95 against 9.59 in perplexity.",
        "窗口丢掉最前面的词元，损失就毁了，留下四个汇点即可恢复：困惑度 3359.95 对 9.59。",
    ),
    source="Xiao et al. 2024 (StreamingLLM), arXiv:2309.17453 (Llama 2 7B)",
    differs=(
        ON_BYTES[0] + " Sinks are said to form in large models; the layers here are two.",
        ON_BYTES[1] + "据说汇点出现在大模型里；这里只有两层。",
    ),
    agreed=False,
    arms=arms,
    expects=(Expectation(Cell("window", "loss", 8), Cell("sinks", "loss", 8), above=0.1),),
)
