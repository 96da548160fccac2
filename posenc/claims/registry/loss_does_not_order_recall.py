from dataclasses import replace

from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import made, text
from posenc.lab.config import RunConfig

WAYS = {"linear": "Linear(4)", "ntk": "NTK(4)"}


def arms(size: Size) -> dict[str, RunConfig]:
    found = {
        "text": text("rotary", size, heads=2 if size == "small" else 8),
        "needle": made("rotary", "needle", size, train=32, times=(1, 2), heads=4),
    }
    for name, way in WAYS.items():
        changed = {"encoding": f"rotary(scaling={way})", "steps": 0}
        found[f"{name}_text"] = replace(found["text"], base="text", **changed)
        found[f"{name}_needle"] = replace(
            found["needle"], base="needle", test_lengths=(32, 128), **changed
        )
    return found


CLAIM = Claim(
    name="loss_does_not_order_recall",
    says=(
        "Of two ways to stretch RoPE, the one with the lower loss on text need not be the one that finds more: untrained at four times the length, linear interpolation reads text better than NTK, and NTK recalls more.",
        "两种拉伸 RoPE 的方法，文本损失低的不一定找回得多：不再训练，在四倍长度上，线性插值读文本比 NTK 好，NTK 却找回得更多。",
    ),
    source="jquesnelle/yarn, data (passkey retrieval beside perplexity on proof-pile); Peng et al. 2024 (YaRN), arXiv:2309.00071",
    differs=(
        "Two small models with heads of 16 dimensions: one reads bytes of Python's standard library, the other finds a letter among 32 others. In the source one model does both, and other ways change places.",
        "两个小模型，头都是 16 维：一个读 Python 标准库的字节，一个在 32 个别的字母中找一个。原文里两件事由同一个模型做，换位的是别的方法。",
    ),
    agreed=False,
    arms=arms,
    expects=(
        Expectation(Cell("needle"), above=0.9),
        Expectation(Cell("ntk_text", "loss", 4), Cell("linear_text", "loss", 4), above=0.1),
        Expectation(Cell("ntk_needle", "exact", 4), Cell("linear_needle", "exact", 4), above=0.2),
    ),
)
