from dataclasses import replace

from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import RATES, made
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    train = 40 if size == "small" else 256
    config = replace(made("path", "flip_flop", size, train=train, times=(1,)), depth=1, heads=2)
    config = replace(config, dim=64, solved=0.99)
    if size == "small":
        config = replace(config, batch=16, steps=500)
    found = {name: replace(config, encoding=name) for name in ("path", "rotary")}
    for name, one in list(found.items()):
        sparse = replace(one, task="flip_flop(ignored=0.98)", steps=0, solved=None, base=name)
        found[f"{name}_sparse"] = sparse
    return found


CLAIM = Claim(
    name="path_solves_flip_flop",
    says=(
        "One layer of PaTH recalls the last bit that was written, also where far more is ignored than in training; one of RoPE errs in both.",
        "一层 PaTH 能记住最后写下的那一位，要忽略的远比训练时多也行；一层 RoPE 两处都会出错。",
    ),
    source="Yang et al. 2025 (PaTH), arXiv:2505.16381, section 4.1 and table 1",
    differs=(
        "The source's model, one layer of 64 dimensions and 2 heads, is trained on 40 instructions, 16 sequences at a time, until 99 of 100 are right or for 500 steps; the sparse test ignores 98 of 100 instructions. The source trains for hours on a GPU, and RoPE's errors there are 6.9% and 40.3%.",
        "模型与出处相同：一层、64 维、2 个头；每次读 16 段，每段 40 条指令，练到 100 段对 99 段，或练满 500 步；稀疏的测试里，100 条指令要忽略 98 条。出处在 GPU 上训练几个小时，RoPE 的错误率是 6.9% 和 40.3%。",
    ),
    agreed=False,
    arms=arms,
    expects=(
        Expectation(Cell("path", "token"), above=0.99),
        Expectation(Cell("path_sparse", "token"), above=0.99),
        Expectation(Cell("rotary", "token"), below=0.99),
        Expectation(Cell("path_sparse", "token"), Cell("rotary_sparse", "token"), above=0.2),
    ),
    rates=RATES,
)
