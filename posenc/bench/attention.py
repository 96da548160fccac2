"""Cases: attention with position, against the same attention without."""

from collections.abc import Iterator
from dataclasses import replace

from posenc.bench import attention_peers as peers
from posenc.bench.attention_inputs import AttentionSetting, no_position, ours
from posenc.bench.attention_products import PRODUCTS, products, vectors_met
from posenc.bench.case import Case, Goal

FLOOR = "no position"
DTYPES = ("float32", "bfloat16")
LENGTHS = (512, 2048, 8192)
# Backends read the tables of KERPLE and Sandwich as a learned one, so those are left out.
TABLES = ("t5", "learned table", "alibi")
GROWTH = (1024, 4096, 8192, 32_768)
PEERS: dict[str, dict[str, peers.Maker]] = {
    "alibi": {"x-transformers": peers.x_transformers, "SDPA, dense bias": peers.dense_bias},
    "t5": {
        "transformers": peers.transformers_t5,
        "x-transformers": peers.x_transformers,
        "SDPA, dense bias": peers.dense_bias,
    },
    "learned table": {"SDPA, dense bias": peers.dense_bias},
    "transformer_xl": {"transformers": peers.transformers_xlnet},
    "deberta": {"transformers": peers.transformers_deberta},
}
BLOCKED = {"float32": 1.3, "bfloat16": 1.6}
TABLE_ROW = "distance tables with gradient, ALiBi: forward and backward"
BLOCKED_ROW = "T5 in pure PyTorch (blocked), forward and backward"
FORWARD_ROW = "ALiBi and T5, forward"
MEMORY_ROW = "memory added by position, L = 8192"
GROWTH_ROW = "memory added by T5's bias as the length grows"
CONTENT_ROW = "memory added by what reads or rescales all pairs, L = 8192"
CONTENT = ("rotary", "xpos", "forget_gate", "cope", "fire", "rerope", "lm_infinite")
# What the process itself needs differs by this much between two runs of the same thing.
MEMORY_MIB = 32.0


def contestants(encoding: str) -> dict[str, peers.Maker]:
    return {FLOOR: no_position, "posenc": ours(), **PEERS.get(encoding, {})}


def cases() -> Iterator[Case]:
    """Time of attention: forward and backward, and forward alone."""
    for length in LENGTHS:
        for encoding in TABLES:
            for dtype in DTYPES:
                setting, line = AttentionSetting(encoding, length, dtype), f"L = {length}, {dtype}"
                goal = Goal(TABLE_ROW, line, "posenc", FLOOR, 0.9)
                curve = f"{encoding}, {dtype}" if encoding in ("t5", "alibi") else None
                case = _trained(setting, (goal,), curve)
                if encoding == "t5":
                    goal = Goal(BLOCKED_ROW, line, "posenc blocked", FLOOR, BLOCKED[dtype])
                    case = _with_blocked(case, goal)
                yield case
    # What there is to reach with causality, and without, where DeBERTa is an encoder.
    for encoding, row, reach in (
        ("shaw", "Shaw keys and values", {True: 1.2, False: 1.2}),
        ("transformer_xl", "Transformer-XL", {True: 1.4, False: 1.0}),
        ("deberta", "DeBERTa", {False: 1.0}),
    ):
        for causal, most in reach.items():
            for dtype in DTYPES:
                setting = AttentionSetting(encoding, 2048, dtype, causal=causal)
                line = f"L = 2048, {'causal' if causal else 'bidirectional'}, {dtype}"
                case = _trained(setting, (Goal(row, line, "posenc", FLOOR, most),))
                yield _with_products(case) if vectors_met(setting) else case
    for encoding in ("alibi", "t5"):
        for dtype in DTYPES:
            setting = AttentionSetting(encoding, 2048, dtype, training=False)
            runs = contestants(encoding)
            if encoding == "t5":
                # Compiling it takes half a minute.
                runs["FlexAttention"] = peers.flex
            goals = (Goal(FORWARD_ROW, f"L = 2048, {dtype}", "posenc", FLOOR, 0.9),)
            name = f"attention forward, {setting}"
            yield Case(name, "attention", setting, runs, FLOOR, goals=goals)


def _trained(setting: AttentionSetting, goals: tuple[Goal, ...], curve: str | None = None) -> Case:
    name, runs = f"attention forward and backward, {setting}", contestants(setting.encoding)
    return Case(
        name, "attention", setting, runs, FLOOR, goals=goals, curve=curve, tokens=setting.length
    )


def _with_products(case: Case) -> Case:
    """Beside it the products alone, of which vectors by distance need more than the floor has."""
    (goal,) = case.goals
    runs = {**case.contestants, PRODUCTS: products}
    return replace(case, contestants=runs, goals=(replace(goal, least=PRODUCTS),))


def _with_blocked(case: Case, goal: Goal) -> Case:
    """What whoever has no compiler gets, beside the rest."""
    runs = {**case.contestants, "posenc blocked": ours("blocked")}
    return replace(case, contestants=runs, goals=(*case.goals, goal))


def memory_cases() -> Iterator[Case]:
    """Memory of training at one length, and as the length grows."""
    for encoding in ("t5", "learned table", "alibi", "shaw", "transformer_xl", "deberta"):
        what = ", Transformer-XL" if encoding == "transformer_xl" else ""
        for dtype in DTYPES:
            setting = AttentionSetting(encoding, 8192, dtype)
            reach = MEMORY_MIB + table_mib(setting)
            case = _memory(setting, Goal(MEMORY_ROW, f"{dtype}{what}", "posenc", FLOOR, reach))
            if encoding == "t5":
                line = f"{dtype}, blocked"
                goal = Goal(MEMORY_ROW, line, "posenc blocked", FLOOR, reach)
                case = _with_blocked(case, goal)
            yield case
    for encoding in CONTENT:
        setting = AttentionSetting(encoding, 8192, "float32")
        yield _memory(
            setting, Goal(CONTENT_ROW, f"{encoding}, float32", "posenc", FLOOR, MEMORY_MIB)
        )
    for length in GROWTH:
        setting = AttentionSetting("t5", length, "float32", heads=2, kv_heads=2)
        goal = Goal(GROWTH_ROW, f"L = {length}, 2 heads, float32", "posenc", FLOOR, MEMORY_MIB)
        yield replace(_memory(setting, goal, PEERS["t5"]), curve="memory", tokens=length)


def table_mib(setting: AttentionSetting) -> float:
    """What the encoding cannot do without: a table of a vector per head and distance, for
    Transformer-XL as long as the keys, and its gradient, both in float32.
    """
    if setting.encoding != "transformer_xl":
        return 0.0
    return 2 * 4 * setting.heads * setting.length * setting.dim / 2**20


def _memory(
    setting: AttentionSetting, goal: Goal, others: dict[str, peers.Maker] | None = None
) -> Case:
    """Peers hold the scores of all pairs, and so take part at small sizes alone."""
    name = f"memory of training, {setting}"
    runs = {FLOOR: no_position, "posenc": ours(), **(others or {})}
    # Runs of the same work differ by a tenth of a MiB.
    return Case(name, "memory", setting, runs, FLOOR, "memory", (goal,), rounds=(3, 3))
