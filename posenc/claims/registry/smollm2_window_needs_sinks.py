from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_SMOLLM2, smollm2
from posenc.lab.config import RunConfig

# 512 and 2,048 tokens of a trained length of 8,192.
SHORT, LONG = 1 / 16, 1 / 4


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "own": smollm2("own"),
        "window": smollm2("window(width=256) + rotary"),
        "sinks": smollm2("sinks(count=4, window=252)"),
    }


CLAIM = Claim(
    name="smollm2_window_needs_sinks",
    says=(
        "A trained model whose window lets go of the first tokens loses much, and four sinks restore it.",
        "训练好的模型，窗口一丢掉最前面的词元，损失就大增；留下四个汇点即可恢复。",
    ),
    source="Xiao et al. 2024 (StreamingLLM), arXiv:2309.17453",
    differs=ON_SMOLLM2,
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("window", "loss", LONG), Cell("own", "loss", SHORT), above=0.2),
        Expectation(Cell("window", "loss", LONG), Cell("sinks", "loss", LONG), above=0.2),
        Expectation(Cell("sinks", "loss", LONG), Cell("own", "loss", SHORT), below=0.1),
    ),
)
