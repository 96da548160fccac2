from dataclasses import replace

from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import text
from posenc.lab.config import RunConfig


def arm(head: int, base: int, length: int, size: Size) -> RunConfig:
    config = text(f"rotary(base={base})", size)
    return replace(
        config,
        heads=config.dim // head,
        train_length=length,
        test_lengths=(length, 2 * length),
        batch=config.batch * config.train_length // length,
        steps=600 if size == "small" else config.steps,
    )


def arms(size: Size) -> dict[str, RunConfig]:
    return {
        "sixteen_at_40": arm(16, 10**6, 40, size),
        "sixteen_at_64": arm(16, 10**6, 64, size),
        "eight_at_100": arm(8, 10**4, 100, size),
        "eight_at_32": arm(8, 10**4, 32, size),
    }


CLAIM = Claim(
    name="turned_pairs_decide",
    says=(
        "RoPE reads twice as far as in training where no pair makes more than a quarter of a turn and less than a whole one in training, and does not where one does.",
        "训练中没有哪一对维度转得超过四分之一圈而不满一圈，RoPE 就能读到训练长度的两倍；有这样的对，就不能。",
    ),
    source="posenc/lab/LOG.md, 2026-11-23 (68 models of other seeds, bases and lengths); one reason why published figures of RoPE at twice the length lie between 1.07 and 18.9 times",
    differs=(
        "Models of 33 thousand parameters read bytes of Python's standard library. Heads of 16 with base 10^6 have no such pair at 40 bytes and one at 64, heads of 8 with base 10^4 none at 100 and one at 32.",
        "模型只有 3.3 万个参数，读 Python 标准库的字节。16 维的头、基数 10^6，在 40 字节没有这样的对，在 64 字节有一对；8 维的头、基数 10^4，在 100 字节没有，在 32 字节有一对。",
    ),
    agreed=False,
    arms=arms,
    expects=(
        Expectation(Cell("sixteen_at_40", "loss", 2), Cell("sixteen_at_40", "loss"), below=0.2),
        Expectation(Cell("sixteen_at_64", "loss", 2), Cell("sixteen_at_64", "loss"), above=0.2),
        Expectation(Cell("eight_at_100", "loss", 2), Cell("eight_at_100", "loss"), below=0.2),
        Expectation(Cell("eight_at_32", "loss", 2), Cell("eight_at_32", "loss"), above=0.2),
    ),
)
