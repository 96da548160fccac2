"""A sweep of 200 tiny runs on two nodes in this machine, with workers and a node killed.

    python -m tools.experiments.ray_sweep FOLDER

Every run is then made by the local engine, too, and what differs in rows or weights is named; the
exit code is 1 if anything does. What it came to stands in posenc/lab/LOG.md.
"""

import json
import os
import random
import sys
import threading
import time
from pathlib import Path

from posenc.lab.complete import complete
from posenc.lab.config import RunConfig
from posenc.lab.engine.ray import Ray
from posenc.lab.model import settings_of
from posenc.lab.progress import LineDisplay
from posenc.lab.words import TEXTS
from posenc.words import Words
from tests.support.ray_runs import add_node, cluster_of, different, kill_worker

ENCODINGS = ("none", "rotary", "alibi", "sinusoidal", "t5")
SEEDS = 40
KILL_SECONDS = (4.0, 10.0)
# The node is taken after so many runs, and comes back after so many more.
TAKEN, BACK = 60, 20


class Disturbing(LineDisplay):
    """Knows which runs are at work, and counts those that lost their worker."""

    def __init__(self) -> None:
        super().__init__(sys.stderr, Words("en", TEXTS))
        self.working: set[str] = set()
        self.ended: list[str] = []
        self.lost_runs: list[str] = []

    def begin(self, name: str) -> None:
        self.working.add(name)
        super().begin(name)

    def lost(self, name: str, message: str) -> None:
        self.lost_runs.append(name)
        super().lost(name, message)

    def end(self, name: str, state: str, message: str) -> None:
        self.working.discard(name)
        self.ended.append(state)
        super().end(name, state, message)


def configs() -> list[RunConfig]:
    found = []
    for seed in range(SEEDS):
        for encoding in ENCODINGS:
            config = RunConfig(
                encoding,
                task="copy",
                seed=seed,
                train_length=8,
                test_lengths=(8, 16),
                dim=16,
                depth=1,
                heads=2,
                batch=16,
                steps=120,
                spans=16,
            )
            found.append(RunConfig(**vars(config) | {"settings": settings_of(config)}))
    return found


def main() -> int:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    out = Path(sys.argv[1])
    todo, draw, killed, nodes_lost = configs(), random.Random(0), [], 0
    for engine in ("ray", "local"):
        (out / engine / "runs").mkdir(parents=True)
    shown, over = Disturbing(), threading.Event()
    with cluster_of(2) as cluster, Ray(cluster.address, retries=10).opened() as carrier:

        def kill() -> None:
            while not over.wait(draw.uniform(*KILL_SECONDS)):
                working = sorted(shown.working)
                if working and kill_worker(name := draw.choice(working)):
                    killed.append(name)

        def take_a_node() -> None:
            nonlocal nodes_lost
            for count in (TAKEN, TAKEN + BACK):
                while len(shown.ended) < count:
                    time.sleep(0.1)
                if count == TAKEN:
                    node = next(iter(cluster.worker_nodes))
                    cluster.remove_node(node, allow_graceful=False)
                    nodes_lost += 1
                else:
                    add_node(cluster)

        threads = [threading.Thread(target=one) for one in (kill, take_a_node)]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        stopped = complete(out / "ray", todo, None, len(todo), shown, carrier=carrier)
        seconds = time.monotonic() - began
        over.set()
        for thread in threads:
            thread.join()
    if stopped is not None:
        raise stopped
    complete(out / "local", todo, None, 2, LineDisplay(sys.stderr, Words("en", TEXTS)))
    differing = different(out / "ray", out / "local", [config.name for config in todo])
    told = {
        "runs": len(todo),
        "done": shown.ended.count("done"),
        "workers killed": len(killed),
        "nodes killed": nodes_lost,
        "retries": len(shown.lost_runs),
        "differing": differing,
        "seconds": round(seconds),
    }
    print(json.dumps(told))
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
