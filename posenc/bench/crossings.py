"""Cases: where `auto` goes from one backend to another, it takes the faster one."""

from collections.abc import Iterator

from posenc.bench.attention_inputs import AttentionSetting, no_position, ours
from posenc.bench.case import Case, Goal

FLOOR = "no position"
ROW = "auto beside each backend that it chooses from"
BACKENDS = ("native", "sdpa")
# Queries and keys, on both sides of where one backend overtakes the other.
SIZES = ((1, 64), (1, 4096), (2, 64), (4, 1024), (8, 64), (8, 4096), (32, 32), (64, 64),
         (128, 128), (256, 256), (512, 512), (256, 4096))  # fmt: skip
# The same where 32 heads share the keys of 8.
SHARED_SIZES = ((4, 1024), (8, 1024), (16, 1024))
DTYPES = ("float32", "bfloat16")
# Two timings of the same work differ by as much.
REACH = 1.1


def cases() -> Iterator[Case]:
    """Each size forward and, where a model trains, backward, on one thread and on all."""
    runs = {FLOOR: no_position, "posenc": ours()}
    runs |= {f"posenc {backend}": ours(backend) for backend in BACKENDS}
    for threads in (1, None):
        shown = "all threads" if threads is None else "1 thread"
        sizes = [(*size, 8) for size in SIZES] + [(*size, 32) for size in SHARED_SIZES]
        for queries, keys, heads in sizes:
            square = queries == keys
            for dtype in DTYPES:
                for training in (False, True) if square else (False,):
                    setting = AttentionSetting(
                        "none", keys, dtype, training=training, heads=heads,
                        queries=None if square else queries, threads=threads,
                    )  # fmt: skip
                    goals = tuple(
                        Goal(ROW, f"{dtype}, {backend}, {shown}", "posenc",
                             f"posenc {backend}", REACH, ())
                        for backend in BACKENDS
                    )  # fmt: skip
                    way = "forward and backward" if training else "forward"
                    name = f"choice of a backend, {queries} queries, {setting}, {way}"
                    yield Case(name, "routing", setting, runs, FLOOR, goals=goals, rounds=(7, 20))
