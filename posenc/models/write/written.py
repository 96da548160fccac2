"""What was written for an engine, and what of it is not what the file meant."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from posenc.models.doctor.finding import Words

Verdict = Literal["exact", "approximate", "impossible"]


@dataclass(frozen=True)
class Line:
    """One line of the loss report: what it is about, how well it travels, and why."""

    about: str
    verdict: Verdict
    words: Words


@dataclass(frozen=True)
class Written:
    """A configuration in the words of one target.

    config is a whole config.json, where the target reads one; flags are for its command line;
    keys are GGUF's metadata, and tensors the numbers that GGUF keeps as tensors.
    """

    target: str
    config: Mapping[str, Any] | None = None
    flags: tuple[str, ...] = ()
    keys: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()
