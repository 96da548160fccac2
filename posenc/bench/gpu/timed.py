"""Rows that time a case: its contestants in turns, as they are and as CUDA graphs."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.bench import timing
from posenc.bench.attention_inputs import AttentionSetting
from posenc.bench.case import Call, Case, Setting, prepared
from posenc.bench.gpu.cases import beside_peers, cases, kernels
from posenc.bench.gpu.clock import captured, in_turns, on
from posenc.bench.gpu.row import Found, Place, Row

COMPILED = ("transformers compiled", "FlexAttention")


def kernel_rows(place: Place) -> Iterator[Row]:
    return _rows(place, list(kernels()))


def peer_rows(place: Place) -> Iterator[Row]:
    return _rows(place, list(beside_peers()))


def _rows(place: Place, every: list[Case]) -> Iterator[Row]:
    # A rehearsal has one of each kind.
    firsts = {case.name.partition(",")[0]: case for case in reversed(every)}
    for case in reversed(firsts.values()) if place.tiny else every:
        yield Row(case.name, timed, (case.name,))


def timed(place: Place, name: str) -> Found:
    """Seconds by contestant and round, the same as graphs, why others are missing.

    Beside them, how far each peer's result is from ours: who computes something else is no peer.
    """
    case, calls, missing = _calls(place, name)
    found: Found = {"missing": missing, "apart": _apart(case, calls)}
    if case.measure == "overhead":
        # What the host does, while the card works on its own.
        return found | {"values": timing.in_turns(calls, seconds=1.0, rounds=(7, 20))}
    found["values"] = in_turns(calls, place)
    if place.device == "cuda":
        graphs, found["not captured"] = captured(calls)
        found["graphs"] = in_turns(graphs, place)
    return found


def ready(place: Place, name: str) -> Found:
    """One call of each contestant, after which what it compiles lies on the disk."""
    _calls(place, name)
    return {}


def _calls(place: Place, name: str) -> tuple[Case, dict[str, Call], dict[str, str]]:
    """The case, what its contestants run, and why others run nothing."""
    case = next(case for case in cases() if case.name == name)
    with torch.device(place.device):
        inputs = (_tiny(case.setting) if place.tiny else case.setting).inputs()
    calls: dict[str, Call] = {}
    missing: dict[str, str] = {}
    for contestant, make in case.contestants.items():
        if place.tiny and contestant in COMPILED:
            missing[contestant] = "compiling takes longer than a rehearsal"
            continue
        got = prepared(lambda x, make=make: on(place, lambda: make(x)), inputs)
        if isinstance(got, str):
            missing[contestant] = got
        else:
            calls[contestant] = got
    return case, calls, missing


def _tiny(setting: Setting) -> Setting:
    """Sizes at which Triton's interpreter takes seconds."""
    small = setting.small()
    if isinstance(small, AttentionSetting):
        grouped = 1 if small.kv_heads < small.heads else 2
        small = replace(small, length=16, heads=2, kv_heads=grouped, dim=16, batch=1)
    return small


def _apart(case: Case, calls: dict[str, Call]) -> dict[str, float]:
    """By peer, the largest difference to ours over ours: of results, or of gradients of q, k, v.

    What else learns has another form in each of them.
    """
    apart: dict[str, float] = {}
    for goal in case.goals:
        for peer in goal.peers or ():
            if goal.who in calls and peer in calls:
                apart[peer] = _difference(calls[goal.who](), calls[peer]())
    return apart


def _difference(ours: Any, theirs: Any) -> float:
    if isinstance(ours, Tensor):
        ours, theirs = (ours,), (theirs,)
    pairs = list(zip(ours, theirs, strict=False))[:3]
    return max(
        float((a.double() - b.double()).abs().max() / a.double().abs().max()) for a, b in pairs
    )
