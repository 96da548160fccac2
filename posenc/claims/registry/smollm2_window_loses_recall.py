from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import ON_SMOLLM2, smollm2
from posenc.lab.config import RunConfig

SHORT, MIDDLE, LONG = 1 / 16, 1 / 8, 1 / 4
HIDDEN = {"task": "passkey(depth=0.25)", "test_lengths": (1024,), "spans": 4}


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "own": smollm2("own"),
        "sinks": smollm2("sinks(count=4, window=252)"),
        "own_passkey": smollm2("own", **HIDDEN),
        "sinks_passkey": smollm2("sinks(count=4, window=252)", **HIDDEN),
    }


CLAIM = Claim(
    name="smollm2_window_loses_recall",
    says=(
        "A window with sinks keeps the loss of a trained model, and a number that stands before the window is not found again.",
        "带汇点的窗口保住训练好的模型的损失，而窗口之前的数字再也找不回来。",
    ),
    source="Xiao et al. 2024 (StreamingLLM), arXiv:2309.17453; mit-han-lab/streaming-llm, README (questions)",
    differs=(
        ON_SMOLLM2[0]
        + " The number stands at a quarter of 1,024 tokens, four times for each seed.",
        ON_SMOLLM2[1] + "数字藏在 1,024 个词元的四分之一处，每个种子四次。",
    ),
    agreed=True,
    arms=arms,
    expects=(
        Expectation(Cell("sinks", "loss", LONG), Cell("own", "loss", SHORT), below=0.1),
        Expectation(Cell("own_passkey", "exact", MIDDLE), above=0.7),
        Expectation(
            Cell("own_passkey", "exact", MIDDLE), Cell("sinks_passkey", "exact", MIDDLE), above=0.5
        ),
    ),
)
