"""Cases: attention with position, against the same attention without."""

from collections.abc import Iterator
from dataclasses import replace

from posenc.bench import attention_peers as peers
from posenc.bench.attention_inputs import AttentionSetting, no_position, ours
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
FORWARD_ROW = "ALiBi and T5, forward"
MEMORY_ROW = "memory added by position, L = 8192"
GROWTH_ROW = "memory added by T5's bias as the length grows"
CONTENT_ROW = "memory added by what reads or rescales all pairs, L = 8192"
CONTENT = ("rotary", "xpos", "forget_gate", "cope", "fire", "rerope", "lm_infinite")
# What the process itself needs differs by this much between two runs of the same thing.
MEMORY_MIB = 32.0


def contestants(encoding: str) -> dict[str, peers.Maker]:
    found: dict[str, peers.Maker] = {FLOOR: no_position, "posenc": ours()}
    return {**found, "posenc blocked": ours("blocked"), **PEERS.get(encoding, {})}


def cases() -> Iterator[Case]:
    """Time of attention: forward and backward, and forward alone."""
    for length in LENGTHS:
        for encoding in TABLES:
            for dtype in DTYPES:
                setting, line = AttentionSetting(encoding, length, dtype), f"L = {length}, {dtype}"
                goals = (
                    Goal(TABLE_ROW, line, "posenc", FLOOR, 0.9),
                    Goal(BLOCKED_ROW, line, "posenc blocked", FLOOR, BLOCKED[dtype]),
                )
                curve = f"{encoding}, {dtype}" if encoding in ("t5", "alibi") else None
                yield _trained(setting, goals, curve)
    # What there is to reach with causality, and without.
    for encoding, row, reach in (
        ("shaw", "Shaw keys and values", (1.2, 1.2)),
        ("transformer_xl", "Transformer-XL", (1.4, 1.0)),
        ("deberta", "DeBERTa", (1.4, 1.0)),
    ):
        for causal, most in zip((True, False), reach, strict=True):
            for dtype in DTYPES:
                setting = AttentionSetting(encoding, 2048, dtype, causal=causal)
                line = f"L = 2048, {'causal' if causal else 'bidirectional'}, {dtype}"
                yield _trained(setting, (Goal(row, line, "posenc", FLOOR, most),))
    for encoding in ("alibi", "t5"):
        for dtype in DTYPES:
            setting = AttentionSetting(encoding, 2048, dtype, training=False)
            runs = contestants(encoding) | {"FlexAttention": peers.flex}
            goals = (Goal(FORWARD_ROW, f"L = 2048, {dtype}", "posenc", FLOOR, 0.9),)
            name = f"attention forward, {setting}"
            yield Case(name, "attention", setting, runs, FLOOR, goals=goals)


def _trained(setting: AttentionSetting, goals: tuple[Goal, ...], curve: str | None = None) -> Case:
    name, runs = f"attention forward and backward, {setting}", contestants(setting.encoding)
    return Case(
        name, "attention", setting, runs, FLOOR, goals=goals, curve=curve, tokens=setting.length
    )


def memory_cases() -> Iterator[Case]:
    """Memory of training at one length, and as the length grows."""
    for encoding in (*TABLES, "shaw", "transformer_xl", "deberta"):
        what = ", Transformer-XL" if encoding == "transformer_xl" else ""
        for dtype in DTYPES:
            setting = AttentionSetting(encoding, 8192, dtype)
            reach = MEMORY_MIB + table_mib(setting)
            goals = tuple(
                Goal(MEMORY_ROW, f"{dtype}{what}{shown}", who, FLOOR, reach)
                for who, shown in (("posenc", ""), ("posenc blocked", ", blocked"))
            )
            yield _memory(setting, goals)
    for encoding in CONTENT:
        setting = AttentionSetting(encoding, 8192, "float32")
        goal = Goal(CONTENT_ROW, f"{encoding}, float32", "posenc", FLOOR, MEMORY_MIB)
        runs = {FLOOR: no_position, "posenc": ours()}
        name = f"memory of training, {setting}"
        yield Case(name, "memory", setting, runs, FLOOR, "memory", (goal,), rounds=(3, 3))
    for length in GROWTH:
        setting = AttentionSetting("t5", length, "float32", heads=2, kv_heads=2)
        goal = Goal(GROWTH_ROW, f"L = {length}, 2 heads, float32", "posenc", FLOOR, MEMORY_MIB)
        yield replace(_memory(setting, (goal,)), curve="memory", tokens=length)


def table_mib(setting: AttentionSetting) -> float:
    """What the encoding cannot do without: a table of a vector per head and distance, for
    Transformer-XL as long as the keys, and its gradient, both in float32.
    """
    if setting.encoding != "transformer_xl":
        return 0.0
    return 2 * 4 * setting.heads * setting.length * setting.dim / 2**20


def _memory(setting: AttentionSetting, goals: tuple[Goal, ...]) -> Case:
    name, runs = f"memory of training, {setting}", contestants(setting.encoding)
    return Case(name, "memory", setting, runs, FLOOR, "memory", goals, rounds=(5, 5))
