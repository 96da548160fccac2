"""Cases: the lab's training step."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import torch

from posenc.bench.case import Call, Case, Goal
from posenc.bench.decoders import (
    PEERS,
    Plain,
    Shape,
    no_attention,
    ours,
    peer,
    training_step,
)

FLOOR, LEAST = "no position", "no attention"
# The first is what `posenc compare` trains unless told otherwise.
SHAPES = (Shape(32, 2, 4, 64, 16), Shape(128, 2, 4, 1024, 2))
REACH = dict(zip(SHAPES, (0.9, 1.1), strict=True))
ROW = "training step of a small decoder"
ENCODINGS = ("none", "rotary", "alibi", "t5", "kerple", "shaw", "transformer_xl", "deberta")


@dataclass(frozen=True)
class TrainingSetting:
    """A small decoder in float32, its loss, its gradient, and a step of AdamW."""

    encoding: str
    shape: Shape

    def inputs(self) -> Self:
        torch.manual_seed(0)
        return self

    def small(self) -> Self:
        return replace(self, shape=replace(self.shape, dim=16, length=8, batch=1))


def cases() -> Iterator[Case]:
    for shape in SHAPES:
        for encoding in ENCODINGS:
            # No kernel, however fast, brings the others below the last of these.
            runs = {FLOOR: plain, "posenc": own, LEAST: without_attention}
            peers = ("x-transformers",) if encoding in PEERS else ()
            runs |= dict.fromkeys(peers, theirs)
            name = f"training step, {encoding}, dim {shape.dim}, L = {shape.length}"
            line = f"dim {shape.dim}, L = {shape.length}"
            goal = Goal(ROW, line, "posenc", FLOOR, REACH[shape], peers, LEAST)
            setting = TrainingSetting(encoding, shape)
            yield Case(name, "training", setting, runs, FLOOR, goals=(goal,))


def plain(setting: TrainingSetting) -> Call:
    return training_step(Plain(setting.shape), setting.shape)


def without_attention(setting: TrainingSetting) -> Call:
    return training_step(Plain(setting.shape, no_attention), setting.shape)


def own(setting: TrainingSetting) -> Call:
    return training_step(ours(setting.encoding, setting.shape), setting.shape)


def theirs(setting: TrainingSetting) -> Call:
    return training_step(peer(setting.encoding, setting.shape), setting.shape)
