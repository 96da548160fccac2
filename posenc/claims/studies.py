"""Set-ups that several claims share, so that each run is made once."""

from dataclasses import replace
from typing import Any

from posenc.claims.claim import Said, Size
from posenc.lab.config import RunConfig

# The train lengths of texts.
LENGTH: dict[Size, int] = {"small": RunConfig.train_length, "large": 512}
# What learning rates of made tasks are chosen from: one that suits ALiBi ruins RoPE.
RATES = (1e-3, 3e-3)
ON_BYTES: Said = (
    "Models of 33 thousand parameters beside the encoding's, with heads of 8 dimensions, read "
    "bytes of Python's standard library, 64 at a time; losses are of the same 16 last bytes, with "
    "more and more before them.",
    "模型除编码外只有 3.3 万个参数，头 8 维，读 Python 标准库的字节，每次 64 个；"
    "损失取同样的最后 16 个字节，只增加它们前面的文本。",
)

TUNED: Said = (
    "Models of 33 thousand parameters, with heads of 8 dimensions, read bytes of Python's standard "
    "library, 64 at a time for 1500 steps, then 200 steps of as many bytes at a quarter of "
    "the rate; losses are of the same 16 last bytes.",
    "模型只有 3.3 万个参数，头 8 维，读 Python 标准库的字节：先每次 64 个，训练 1500 步，"
    "再以四分之一的学习率训练 200 步，每步字节数相同；损失取同样的最后 16 个字节。",
)
ON_SMOLLM2: Said = (
    "SmolLM2-135M-Instruct (trained on 8,192 tokens, its 4-bit weights unpacked) reads 2,048 "
    "tokens of Python's standard library with a cache of 256. Losses are of the same 512 last "
    "tokens; where it reads these alone, each has 256 before it on average.",
    "SmolLM2-135M-Instruct（训练长度 8,192，4 位权重解开使用）读 Python 标准库的 2,048 个词元，"
    "缓存 256。损失取同样的最后 512 个词元；只读这些时，每个词元前平均有 256 个。",
)


def text(encoding: str, size: Size = "small", **over: Any) -> RunConfig:
    """Bytes of Python's standard library, as `posenc compare` reads them without options."""
    small = RunConfig(encoding)
    if size == "large":
        small = replace(
            small,
            train_length=LENGTH[size],
            test_lengths=tuple(times * LENGTH[size] for times in (1, 2, 4, 8)),
            dim=512,
            depth=8,
            heads=8,
            batch=32,
            steps=20000,
            learning_rate=8e-4,
            precision="bfloat16",
        )
    return replace(small, **over)


def stretchings(size: Size) -> dict[str, str]:
    """RoPE stretched to eight times the train length of texts."""
    ways = {"linear": "Linear(8)", "ntk": "NTK(8)", "yarn": f"YaRN(8, {LENGTH[size]})"}
    return {name: f"rotary(scaling={way})" for name, way in ways.items()}


def tuned(encoding: str, size: Size = "small", *, times: int = 8, **over: Any) -> RunConfig:
    """The arm `rotary` trained a little further, on texts so many times as long."""
    first = text("rotary", size)
    further = replace(
        first,
        encoding=encoding,
        base="rotary",
        train_length=times * first.train_length,
        batch=first.batch // times,
        steps=200 if size == "small" else 2000,
        learning_rate=first.learning_rate / 4,
        scored=first.target_tokens,
    )
    return replace(further, **over)


def made(
    encoding: str,
    task: str,
    size: Size = "small",
    *,
    train: int = 10,
    times: tuple[float, ...] = (1, 1.1, 1.2, 1.5, 2),
    **over: Any,
) -> RunConfig:
    """A task that is made by a rule; test lengths are so many times the train length."""
    small = RunConfig(
        encoding,
        task=task,
        train_length=train,
        test_lengths=tuple(dict.fromkeys(round(each * train) for each in times)),
        dim=64,
        depth=2,
        heads=4,
        batch=64,
        steps=1500,
        learning_rate=3e-3,
        spans=256,
    )
    if size == "large":
        small = replace(
            small, dim=256, depth=4, heads=8, batch=128, steps=20000, learning_rate=1e-3
        )
    return replace(small, **over)


COPYING: Said = (
    "Models of 0.1 million parameters copy up to 8 letters of 14, until they do so 4 times in 5 "
    "or have made 2000 steps.",
    "0.1 百万参数的模型复制至多 8 个字母（共 14 种），练到五次对四次，或练满 2000 步。",
)


def copying(encoding: str, size: Size = "small") -> RunConfig:
    """Copying, to which some encodings come much later than others."""
    times = (1, 1.125, 1.25, 1.5, 2)
    config = made(encoding, "copy(letters=14)", size, train=8, times=times, solved=0.8)
    return replace(config, steps=2000) if size == "small" else config


COUNTING: Said = (
    "Two layers of 32 dimensions count up to 9 additions among at most 16 tokens; the sources' "
    "models are larger, and read several variables or longer texts.",
    "两层、32 维的模型，在至多 16 个词元中数至多 9 次加法；"
    "出处的模型更大，读几个变量或更长的文本。",
)


def counting(encoding: str, size: Size = "small") -> RunConfig:
    """Counting since the last new beginning."""
    config = made(encoding, "counting", size, train=16, times=(1, 2))
    return replace(config, dim=32, steps=1200) if size == "small" else config


# Of SmolLM2-135M-Instruct, which its runs count lengths against.
TRAINED = 8192


def smollm2(encoding: str, task: str = "tokens", **over: Any) -> RunConfig:
    """SmolLM2-135M as it is, with an encoding in place of its own; nothing is trained.

    A seed draws a stretch of the test part of Python's standard library. Its last 512 tokens are
    scored, behind none and behind 1,536 others.
    """
    config = RunConfig(
        encoding,
        model="smollm2",
        task=task,
        train_length=TRAINED,
        test_lengths=(512, 2048),
        steps=0,
        spans=1,
    )
    return replace(config, **over)
