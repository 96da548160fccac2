"""Cases: attention that adds nothing to the scores, or hides much of them, or computes more.

A row is data: its encodings at each length, and what there is to reach there.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from posenc.bench import attention_peers as peers
from posenc.bench.attention_encodings import visible_share
from posenc.bench.attention_inputs import AttentionSetting, no_position, ours
from posenc.bench.attention_products import PRODUCTS, products
from posenc.bench.case import Case, Goal

FLOOR, MASKED = "no position", "SDPA, mask"
DTYPES = ("float32", "bfloat16")
PEERS: dict[str, dict[str, peers.Maker]] = {
    "none": {"transformers": peers.transformers_plain},
    "rotary": {"transformers": peers.transformers_plain},
    "t5": {"transformers": peers.transformers_t5, "SDPA, dense bias": peers.dense_bias},
}
# How long the slowest of these takes at 8,192 tokens, and SDPA in float16, allows no more.
LONG = (7, 9)


@dataclass(frozen=True)
class Row:
    """reach: by length, times the base; a number, or a function of encoding and length."""

    title: str
    encodings: tuple[str, ...]
    reach: Mapping[int, float | Callable[[str, int], float]]
    causal: bool = True
    training: tuple[bool, ...] = (False, True)
    base: str = FLOOR
    dropout: float = 0.0
    curves: tuple[str, ...] = field(default=())
    dtypes: tuple[str, ...] = DTYPES


def hidden(encoding: str, length: int) -> float:
    """What a mask leaves of all pairs, and a tenth."""
    return visible_share(encoding, length) + 0.1


def zoned(encoding: str, length: int) -> float:
    """One and a half times, of what a window leaves of the pairs where there is one."""
    windowed = encoding in ("lm_infinite", "re-indexed sinks")
    return 1.5 * (visible_share(encoding, length, of_causal=True) if windowed else 1.0)


BARE = ("none", "rotary")
# Which compute little beside the matrix products of q, k and v.
PLAIN = (*BARE, "t5")
ROWS = (
    Row(
        "no bias and rotary, causal, forward",
        BARE, {512: 0.75, 2048: 0.65, 8192: 0.6}, training=(False,),
    ),
    Row(
        "no bias and rotary, causal, forward and backward",
        BARE, {512: 0.6, 2048: 0.55, 8192: 0.5}, training=(True,), curves=BARE,
    ),
    Row(
        "no bias and rotary, causal, forward",
        ("rotary",), {2048: 0.65}, training=(False,), dtypes=("float16",),
    ),
    Row(
        "no bias and rotary, causal, forward and backward",
        ("rotary",), {2048: 0.55}, training=(True,), dtypes=("float16",),
    ),
    Row("no bias and T5, bidirectional", ("none", "t5"), {512: 0.7, 2048: 0.7}, causal=False),
    Row(
        "a window of 256, and packed documents, beside SDPA with the mask",
        ("window of 256", "packed documents"), {8192: hidden}, base=MASKED,
    ),
    Row(
        "Zones: ReRoPE, Self-Extend, LM-Infinite, re-indexed sinks",
        ("rerope", "self_extend", "lm_infinite", "re-indexed sinks"), {8192: zoned},
    ),
    Row(
        "CoPE, forget gate, FIRE, xPos, causal, forward and backward",
        ("cope", "forget_gate", "fire", "xpos"), {2048: 1.5}, training=(True,),
    ),
    Row(
        "dropout of 0.1, causal, forward and backward, beside SDPA with dropout",
        ("none",), {2048: 1.0}, training=(True,), dropout=0.1,
    ),
)  # fmt: skip


def cases() -> Iterator[Case]:
    for row in ROWS:
        for length in row.reach:
            for encoding in row.encodings:
                for dtype in row.dtypes:
                    for training in row.training:
                        yield case_of(
                            row,
                            AttentionSetting(encoding, length, dtype, row.causal, training,
                                             dropout=row.dropout),
                        )  # fmt: skip


def case_of(row: Row, setting: AttentionSetting) -> Case:
    """The case of one encoding, with the goal of its row."""
    encoding, length = setting.encoding, setting.length
    reach = row.reach[length]
    found = reach(encoding, length) if callable(reach) else reach
    passes = "forward and backward" if setting.training else "forward"
    # Where each encoding has its own figure, each has its own line.
    line = f"L = {length}, {setting.dtype}"
    line = f"{encoding}, {line}" if callable(reach) else line
    line = f"{line}, {passes}" if len(row.training) > 1 else line
    runs: dict[str, peers.Maker] = {
        row.base: peers.masked if row.base == MASKED else no_position,
        "posenc": ours(),
        # Peers draw masks of their own, through the SDPA that is the floor here.
        **({} if row.dropout else PEERS.get(encoding, {})),
    }
    # torch has no fast products of float16.
    least = PRODUCTS if encoding in PLAIN and setting.dtype != "float16" else None
    if least is not None:
        runs[least] = products
    return Case(
        f"attention {passes}, {setting}", "attention", setting, runs, row.base,
        goals=(Goal(row.title, line, "posenc", row.base, round(found, 2), least=least),),
        rounds=LONG if length > 2048 or setting.dtype == "float16" else (7, 40),
        curve=f"{encoding}, {setting.dtype}".replace("none", "no bias")
        if encoding in row.curves
        else None,
        tokens=length,
    )  # fmt: skip
