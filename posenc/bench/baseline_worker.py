"""`python -m posenc.bench.baseline_worker SETTINGS`: a training step for each line of input, timed.

Attention goes through SDPA with a dense bias, or through the equation, as before there were other
backends; with POSENC_NATIVE=0 there are no C kernels either.
"""

import json
import sys
import time

import torch

from posenc.backends import BACKENDS
from posenc.bench.decoders import Shape, ours, training_step


def main() -> None:
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(0)
    # `auto` chooses among these alone.
    first = {name: BACKENDS[name] for name in ("sdpa", "reference")}
    BACKENDS.clear()
    BACKENDS.update(first)
    shape = Shape(**settings["shape"])
    step = training_step(ours(settings["encoding"], shape), shape)
    for _ in sys.stdin:
        start = time.perf_counter()
        step()
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
