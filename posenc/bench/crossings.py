"""Cases: where `auto` goes from one backend to another, it takes the faster one."""

from collections.abc import Iterator

from posenc.bench.attention_inputs import AttentionSetting, no_position, ours
from posenc.bench.case import Case, Goal

FLOOR = "no position"
ROW = "auto beside each backend that it chooses from"
BACKENDS = ("native", "sdpa")
# Queries and keys, on both sides of where one backend overtakes the other.
SIZES = ((1, 64), (1, 4096), (8, 64), (8, 4096), (32, 32), (128, 128), (256, 256), (512, 512),
         (256, 4096))  # fmt: skip
DTYPES = ("float32", "bfloat16")
# Two timings of the same work differ by as much.
REACH = 1.1


def cases() -> Iterator[Case]:
    for queries, keys in SIZES:
        for dtype in DTYPES:
            for encoding in ("none", "rotary"):
                rows = None if queries == keys else queries
                setting = AttentionSetting(encoding, keys, dtype, training=False, queries=rows)
                runs = {FLOOR: no_position, "posenc": ours()}
                runs |= {f"posenc {backend}": ours(backend) for backend in BACKENDS}
                goals = tuple(
                    Goal(ROW, f"{dtype}, {backend}", "posenc", f"posenc {backend}", REACH, ())
                    for backend in BACKENDS
                )
                name = f"choice of a backend, {queries} queries, {setting}"
                yield Case(name, "attention", setting, runs, FLOOR, goals=goals, rounds=(7, 20))
