from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_SMOLLM2, smollm2
from posenc.lab.config import RunConfig

LONG = 1 / 4
# The sinks keep their places, and the text stands as far behind them as at 16,384 tokens.
FAR = 14336


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "window": smollm2("window(width=256) + rotary"),
        "one_renumbered": smollm2("sinks(count=1, window=255)"),
        "four_renumbered": smollm2("sinks(count=4, window=252)"),
        "one_in_place": smollm2(
            "window(width=255) + sinks(count=1) + rotary", f"tokens(gap={FAR}, first=1)"
        ),
        "four_in_place": smollm2(
            "window(width=252) + sinks(count=4) + rotary", f"tokens(gap={FAR})"
        ),
    }


CLAIM = Claim(
    name="smollm2_renumbering_not_sinks",
    says=(
        "What StreamingLLM lives on is counting positions within the cache, not sinks: perplexity is 29.67 with a sink and without renumbering, 8.90 renumbered without a sink, 7.49 with one and 7.36 with four.",
        "StreamingLLM 靠的是在缓存内重新编号，不是汇点：有汇点不重新编号，困惑度 29.67；重新编号而没有汇点 8.90，一个汇点 7.49，四个 7.36。",
    ),
    source="mit-han-lab/streaming-llm, issue 74 (Vicuna 13B, cache 256), on Xiao et al. 2024 (StreamingLLM), arXiv:2309.17453",
    differs=(
        ON_SMOLLM2[0]
        + " Where sinks keep their places, the text stands 14,336 positions farther on, as if so much had been read and dropped. A plain window sees distances alone, which renumbering leaves as they are: it stands for both.",
        ON_SMOLLM2[1]
        + "汇点保留原位时，后面的文本往后移 14,336 个位置，好像中间读过又丢掉了。单纯的窗口只看距离，重新编号并不改变距离，所以它一身兼二。",
    ),
    agreed=False,
    arms=arms,
    expects=(
        Expectation(
            Cell("one_in_place", "loss", LONG), Cell("one_renumbered", "loss", LONG), above=0.25
        ),
        Expectation(
            Cell("four_in_place", "loss", LONG), Cell("four_renumbered", "loss", LONG), above=0.25
        ),
        Expectation(
            Cell("one_renumbered", "loss", LONG), Cell("four_renumbered", "loss", LONG), below=0.1
        ),
        Expectation(Cell("window", "loss", LONG), Cell("one_renumbered", "loss", LONG), below=0.25),
    ),
)
