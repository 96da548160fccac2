from dataclasses import replace

from posenc.claims.claim import Cell, Claim, Expectation, Size
from posenc.claims.studies import LENGTH, text
from posenc.lab.config import RunConfig


def arms(size: Size) -> dict[str, RunConfig]:
    return {"none": _masked("none", size), "learned": _masked("learned", size)}


def _masked(encoding: str, size: Size) -> RunConfig:
    config = text(encoding, size, task="masked_text", test_lengths=(LENGTH[size],))
    if size == "large":
        return config
    # A table of 64 rows learns nothing of masked text in 750 steps, one of 16 does.
    short = replace(config, train_length=16, test_lengths=(16,), batch=64, spans=2048)
    return replace(short, steps=1800, learning_rate=5e-3)


CLAIM = Claim(
    name="masked_needs_positions",
    says=(
        "An encoder that says masked tokens fails without positions, as a decoder does not: 147 against about 4 in perplexity, 3.6 nats.",
        "猜被遮住的词元的编码器，没有位置就不行，解码器则不然：困惑度 147 对约 4，差 3.6 nat。",
    ),
    source="Haviv et al. 2022, arXiv:2203.16634 (masked language models)",
    differs=(
        "Models of 33 thousand parameters say the hidden 15% of 16 bytes of Python's standard library. Without positions they must lose more than 0.5 nats, which is more than a decoder of that size loses.",
        "3.3 万个参数的模型，在 Python 标准库的 16 个字节中猜被遮住的 15%。没有位置时须多损失 0.5 nat 以上，这比同样大小的解码器损失的多。",
    ),
    agreed=True,
    arms=arms,
    expects=(Expectation(Cell("none", "windows"), Cell("learned", "windows"), above=0.5),),
)
