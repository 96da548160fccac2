"""What an engine does not do as a configuration says."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from posenc.errors import UnsupportedError
from posenc.models.angles import Effect, compare
from posenc.models.doctor.finding import Case, Finding, Values, Weight, Words
from posenc.models.read import read
from posenc.models.spec import ModelSpec
from posenc.models.spellings import text, within_text
from posenc.models.values import plain_values

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
            values = plain_values(case.values)
            if not loss.taken(text(values)):
                continue
            patch = loss.patch(text(dict(case.values))) if loss.patch else None
            if patch:
                patch = within_text(case.values, dict(patch))
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
                effect = _gravest(case, read(values))
            except UnsupportedError:
                # There is no formula of such a scaling, and so nothing to compare.
                continue
            if effect is not None:
                weight = "error" if effect.grave else "warning"
                yield Finding(weight=weight, words=loss.words, effect=effect, **common)


def _gravest(case: Case, other: ModelSpec) -> Effect | None:
    """What it costs at the target, or in inputs of the length before the stretch, if that is more.

    LongRoPE's short factors hold up to there, and no longer input tells what becomes of them.
    """
    lengths = {case.target, min(case.target, case.spec.main.original_length or case.target)}
    effects = [compare(case.spec, other, length) for length in sorted(lengths, reverse=True)]
    told = [effect for effect in effects if effect is not None]
    return max(told, key=lambda x: (x.grave, x.angle, abs(x.gain - 1)), default=None)
