"""One case, measured in this process."""

from typing import Any

import torch

from posenc.bench.case import Call, Case, prepared
from posenc.bench.timing import in_turns
from posenc.lab.hardware import peak_memory_mb

MIB_PER_MB = 1e6 / 2**20


def times(case: Case, *, quick: bool, seconds: float) -> dict[str, Any]:
    """Seconds of each contestant, round by round; or why it did not run."""
    inputs = (case.setting.small() if quick else case.setting).inputs()
    calls: dict[str, Call] = {}
    missing: dict[str, str] = {}
    for name, make in case.contestants.items():
        got = prepared(make, inputs)
        if isinstance(got, str):
            missing[name] = got
        else:
            calls[name] = got
    rounds = (2, 2) if quick else case.rounds
    values = in_turns(calls, seconds=seconds, rounds=rounds, warm=case.warm)
    return {"values": values, "missing": missing, "note": getattr(inputs, "note", "")}


def memory(case: Case, contestant: str, *, quick: bool) -> dict[str, Any]:
    """MiB by which one run of a contestant raises this process's high-water mark; or why not.

    All contestants run at small size before, so that every process holds the same code.
    """
    small = case.setting.small()
    for make in case.contestants.values():
        prepared(make, small.inputs())
    before = peak_memory_mb()
    inputs = (small if quick else case.setting).inputs()
    got = prepared(case.contestants[contestant], inputs)
    after = peak_memory_mb()
    if isinstance(got, str):
        return {"missing": got}
    if before is None or after is None:
        return {"missing": "this system does not tell the memory of a process"}
    return {"value": (after - before) * MIB_PER_MB}


def run(request: dict[str, Any], every: list[Case]) -> dict[str, Any]:
    """What a worker process is asked for: `case`, `contestant`, `quick`, `seconds`, `threads`."""
    torch.set_num_threads(request["threads"])
    case = next(case for case in every if case.name == request["case"])
    if case.measure == "memory":
        return memory(case, request["contestant"], quick=request["quick"])
    return times(case, quick=request["quick"], seconds=request["seconds"])
