"""What an engine does not do as a configuration says."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from posenc.errors import PosencError
from posenc.models.angles import compare
from posenc.models.doctor.finding import Case, Finding, Values, Weight, Words
from posenc.models.read import read

Patch = Mapping[str, Any]


@dataclass(frozen=True)
class Loss:
    """One thing that an engine takes otherwise, or cannot take.

    `taken` changes the text's values, a copy of its own, to what the engine makes of them, and
    tells whether that concerns them. What it costs is computed, unless weight says it: an engine
    that does not load a file at all, or a fault that happens to change nothing. patch gives what
    mends it, to be merged into the text's values.
    """

    rule: str
    taken: Callable[[dict[str, Any]], bool]
    words: Words
    link: str
    keys: tuple[str, ...] = ()
    patch: Callable[[Values], Patch] | None = None
    weight: Weight | None = None


@dataclass(frozen=True)
class Engine:
    """An engine, which version of it was read, and what it loses."""

    name: str
    version: str
    losses: tuple[Loss, ...]

    def findings(self, case: Case) -> Iterator[Finding]:
        """What this engine makes of the case, each with what it costs at the target."""
        for loss in self.losses:
            values = copy.deepcopy(dict(case.values))
            if not loss.taken(text(values)):
                continue
            patch = loss.patch(text(dict(case.values))) if loss.patch else None
            if patch is not None and "text_config" in case.values:
                patch = {"text_config": patch}
            common = {
                "rule": loss.rule,
                "keys": loss.keys,
                "engine": self.name,
                "patch": patch,
                "link": loss.link,
            }
            if loss.weight is not None:
                yield Finding(weight=loss.weight, words=loss.words, **common)
                continue
            try:
                other = read(values)
            except PosencError:
                continue
            effect = compare(case.spec, other, case.target)
            if effect is not None:
                weight = "error" if effect.grave else "warning"
                yield Finding(weight=weight, words=loss.words, effect=effect, **common)


def text(values: dict[str, Any]) -> dict[str, Any]:
    """The part that writes text: its own object in files of several parts."""
    inner = values.get("text_config")
    return inner if isinstance(inner, dict) else values


def ropes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every object of rotary settings: one, or one for each kind of layer."""
    whole = [values.get(name) for name in ("rope_parameters", "rope_scaling")]
    flat = [x for x in whole if isinstance(x, dict)]
    nested = [x for outer in flat for x in outer.values() if isinstance(x, dict)]
    return nested or flat


def kind(rope: Mapping[str, Any]) -> str:
    """The type of scaling under either of its names."""
    name = rope.get("rope_type") or rope.get("type") or "default"
    return name if isinstance(name, str) else "default"


def older(values: Values) -> dict[str, Any]:
    """The settings of rope_parameters under the keys of transformers 4, to stand beside them."""
    inner = dict(values["rope_parameters"])
    patch: dict[str, Any] = {"rope_theta": inner.pop("rope_theta", None)}
    if kind(inner) != "default":
        patch["rope_scaling"] = inner
    return patch
