"""Clusters of Ray in this machine, and runs that can be disturbed on them."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from posenc.lab.folder import WEIGHTS, Run, read_run

STORE = 100_000_000

# Named by tests as an encoding. Whoever imports it takes checkpoints often, and each step is slow
# and leaves a byte, so that steps that were done twice can be counted.
SLOW = '''
import time
from pathlib import Path

import posenc as pe
import posenc.lab.train.record

posenc.lab.train.record.CHECKPOINT_SECONDS = 0.2
STEPS = Path(__file__).with_name("steps")


class Slow(pe.NoPE):
    """Takes its time."""

    def embed(self, x, positions, *, layer=0):
        with STEPS.open("ab") as file:
            file.write(b".")
        time.sleep(0.005)
        return super().embed(x, positions, layer=layer)
'''


@contextmanager
def cluster_of(nodes: int) -> Iterator[Any]:
    """A cluster whose nodes have one core each; the first is its head."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": STORE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(nodes - 1):
            add_node(cluster)
        yield cluster
    finally:
        cluster.shutdown()


def add_node(cluster: Any) -> None:
    cluster.add_node(num_cpus=1, object_store_memory=STORE)


def worker_of(name: str) -> int | None:
    """The process of Ray that carries the run out: Ray gives it the task's name as its title."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            title = path.read_bytes()
        except OSError:
            continue
        if title.startswith(f"ray::{name}".encode()):
            return int(path.parent.name)
    return None


def kill_worker(name: str) -> bool:
    process = worker_of(name)
    if process is not None:
        os.kill(process, signal.SIGKILL)
    return process is not None


def losses(run: Run) -> list[Any]:
    """Everything in a run's rows that does not depend on the clock."""
    timed = ("seconds", "ms_per_step", "peak_memory_mb")
    return [{key: row[key] for key in row if key not in timed} for row in run.rows]


def different(out: Path, other: Path, names: Iterable[str]) -> list[str]:
    """Names of runs that are not done in both folders with the same rows and weights."""
    found = []
    for name in names:
        one, two = read_run(out / "runs" / name), read_run(other / "runs" / name)
        same = one and two and one.state == two.state == "done" and losses(one) == losses(two)
        if not same or (one.path / WEIGHTS).read_bytes() != (two.path / WEIGHTS).read_bytes():
            found.append(name)
    return found
