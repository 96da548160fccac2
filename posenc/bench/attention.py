"""Cases: attention with position, against the same attention without."""

from collections.abc import Iterator
from dataclasses import replace

from posenc.bench import attention_peers as peers
from posenc.bench.attending import Attending, no_position, ours
from posenc.bench.case import Case, Goal

FLOOR = "no position"
DTYPES = ("float32", "bfloat16")
LENGTHS = (512, 2048, 8192)
TABLES = ("t5", "kerple", "learned table", "alibi", "sandwich")
GROWTH = tuple(1024 << i for i in range(7))
PEERS: dict[str, dict[str, peers.Maker]] = {
    "alibi": {"x-transformers": peers.x_transformers, "SDPA, dense bias": peers.dense_bias},
    "t5": {
        "transformers": peers.transformers_t5,
        "x-transformers": peers.x_transformers,
        "SDPA, dense bias": peers.dense_bias,
    },
    "kerple": {"SDPA, dense bias": peers.dense_bias},
    "learned table": {"SDPA, dense bias": peers.dense_bias},
    "sandwich": {"SDPA, dense bias": peers.dense_bias},
    "transformer_xl": {"transformers": peers.transformers_xlnet},
    "deberta": {"transformers": peers.transformers_deberta},
}
BLOCKED = {"float32": 1.3, "bfloat16": 1.6}
TABLE_ROW = "distance tables with gradient, ALiBi, Sandwich: forward and backward"
BLOCKED_ROW = "the same in pure PyTorch (blocked)"
MEMORY_ROW = "memory added by position, L = 8192"


def contestants(encoding: str) -> dict[str, peers.Maker]:
    found: dict[str, peers.Maker] = {FLOOR: no_position, "posenc": ours()}
    return {**found, "posenc blocked": ours("blocked"), **PEERS.get(encoding, {})}


def cases() -> Iterator[Case]:
    """Rows six to nine of the figures to reach."""
    for length in LENGTHS:
        for encoding in TABLES:
            for dtype in DTYPES:
                at, line = Attending(encoding, length, dtype), f"L = {length}, {dtype}"
                goals = (
                    Goal(TABLE_ROW, line, "posenc", FLOOR, 0.9),
                    Goal(BLOCKED_ROW, line, "posenc blocked", FLOOR, BLOCKED[dtype]),
                )
                curve = f"{encoding}, {dtype}" if encoding in ("t5", "alibi") else None
                yield _trained(at, goals, curve)
    for encoding, row, reach in (
        ("shaw", "Shaw keys and values", 1.2),
        ("transformer_xl", "Transformer-XL", 1.4),
        ("deberta", "DeBERTa", 1.4),
    ):
        for causal in (True, False):
            for dtype in DTYPES:
                at = Attending(encoding, 2048, dtype, causal=causal)
                line = f"L = 2048, {'causal' if causal else 'bidirectional'}, {dtype}"
                yield _trained(at, (Goal(row, line, "posenc", FLOOR, reach),))
    for encoding in ("alibi", "t5"):
        for dtype in DTYPES:
            at = Attending(encoding, 2048, dtype, training=False)
            runs = contestants(encoding) | {"FlexAttention": peers.flex}
            yield Case(f"attention forward, {at}", "attention", at, runs, FLOOR)


def _trained(at: Attending, goals: tuple[Goal, ...], curve: str | None = None) -> Case:
    name, runs = f"attention forward and backward, {at}", contestants(at.encoding)
    return Case(name, "attention", at, runs, FLOOR, goals=goals, curve=curve, at=at.length)


def memory_cases() -> Iterator[Case]:
    """Row ten, and memory as the length grows."""
    for encoding in (*TABLES, "shaw", "transformer_xl", "deberta"):
        # Its table of projected sinusoids, and that one's gradient, take 34 MiB alone.
        xl = encoding == "transformer_xl"
        reach, what = (128.0, ", Transformer-XL") if xl else (32.0, "")
        for dtype in DTYPES:
            at = Attending(encoding, 8192, dtype)
            goals = tuple(
                Goal(MEMORY_ROW, f"{dtype}{what}{shown}", who, FLOOR, reach)
                for who, shown in (("posenc", ""), ("posenc blocked", ", blocked"))
            )
            yield _memory(at, goals)
    for length in GROWTH:
        at = Attending("t5", length, "float32", heads=2, kv_heads=2)
        yield replace(_memory(at), curve="memory", at=length)


def _memory(at: Attending, goals: tuple[Goal, ...] = ()) -> Case:
    name, runs = f"memory of training, {at}", contestants(at.encoding)
    return Case(name, "memory", at, runs, FLOOR, measure="memory", goals=goals)
