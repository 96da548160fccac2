"""Seconds of calls on a GPU, in turns: as they are, and as graphs, which leave Python out."""

import gc
import time
from collections.abc import Callable, Mapping

import torch

from posenc.bench import timing
from posenc.bench.case import Call
from posenc.bench.gpu.row import Place

# Rounds, of which slow contestants get fewer: none begins after so many seconds but the first five.
ROUNDS, FEWEST, SECONDS = 20, 5, 2.0
# Larger than any card's cache, so that it holds nothing of the round before.
FLUSHED_BYTES = 2**28


def in_turns(calls: Mapping[str, Call], place: Place) -> dict[str, list[float]]:
    """Seconds of each call in each round; what it reads lies in the card's memory, not its cache.

    By events around one call. In a rehearsal by the processor's clock, twice.
    """
    if place.tiny:
        return timing.in_turns(calls, seconds=0.0, rounds=(2, 2))
    flush = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device=place.device)
    for call in calls.values():
        for _ in range(3):
            call()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    began = time.monotonic()
    for done in range(ROUNDS):
        if done >= FEWEST and time.monotonic() - began > SECONDS:
            break
        for name, call in calls.items():
            flush.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            taken[name].append(start.elapsed_time(end) / 1e3)
    return taken


def graphed(call: Call) -> Call:
    """The same as a CUDA graph. Raises RuntimeError for what cannot be captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    # What is freed while a graph is captured may break it: errors hold tensors in cycles.
    gc.collect()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def captured(calls: Mapping[str, Call]) -> tuple[dict[str, Call], dict[str, str]]:
    """Calls as graphs, and why others are none."""
    graphs: dict[str, Call] = {}
    missing: dict[str, str] = {}
    for name, call in calls.items():
        try:
            graphs[name] = graphed(call)
        except RuntimeError as error:
            missing[name] = " ".join(str(error).split())[:200]
    return graphs, missing


def on(place: Place, make: Callable[[], Call]) -> Call:
    """What a contestant runs, with the tensors that it makes where the place is."""
    with torch.device(place.device):
        return make()
