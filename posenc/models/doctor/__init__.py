"""`examine`: what is wrong with a configuration, what engines drop of it, what breaks farther."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from posenc.errors import SettingError, UnknownNameError, UnsupportedError
from posenc.models.doctor.engines import ENGINES
from posenc.models.doctor.finding import Case, Finding, Rule
from posenc.models.doctor.rules import RULES
from posenc.models.doctor.weights import judge_buffers, judge_weights
from posenc.models.read import read_with_values
from posenc.models.spec import ModelSpec

_ORDER = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True)
class Examination:
    """What was read, how far it was to reach, and the findings, the gravest first."""

    spec: ModelSpec
    target: int
    engines: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing of weight was found."""
        return not any(finding.weight == "error" for finding in self.findings)


class Model(Protocol):
    """A model of transformers, in memory."""

    config: Any

    def named_buffers(self) -> Iterable[tuple[str, Any]]: ...


def examine(
    source: str | PathLike[str] | Mapping[str, Any] | Model,
    *,
    target_length: int | None = None,
    engines: Iterable[str] = tuple(ENGINES),
    weights: bool = False,
) -> Examination:
    """What is wrong with the positions of a model, of its configuration alone.

    Of a model in memory the frequencies that it turns by are compared with its configuration, too.
    target_length is how many tokens the model is to take, by default as many as the file states.
    engines are those that are to run it. weights reads the safetensors files of the folder too:
    stored frequencies, and whether queries and keys lie in the layout that the model type's code
    turns, which norms of rows tell, with a probability. Raises ConfigError for what is no
    configuration, UnknownNameError for a model type or an engine that posenc does not know,
    SettingError for a target below 1.

    Example: `examine("config.json", target_length=131_072, engines=["vllm"]).findings`.
    """
    engines = tuple(engines)
    for name in engines:
        if name not in ENGINES:
            raise UnknownNameError("engine", name, ENGINES)
    if target_length is not None and target_length < 1:
        raise SettingError(f"examine(target_length={target_length}): at least 1 is needed")
    model: Any = source if hasattr(source, "named_buffers") else None
    told: Any = source if model is None else model.config
    spec, values = read_with_values(told)
    # A model of distances alone states no length; what is asked of it is asked at 8,192.
    target = target_length or spec.main.trained_length or 8192
    # Of a GGUF file llama.cpp alone reads, and `read` does as it does.
    case = Case(spec, values or {}, target)
    findings = [finding for rule in RULES for finding in _told(rule, case)]
    findings += [finding for name in engines for finding in ENGINES[name].findings(case)]
    if model is not None:
        findings += judge_buffers(model, spec, target)
    if weights:
        if not isinstance(source, str | PathLike):
            raise SettingError("examine(weights=True) reads files: give the folder of the model")
        findings += judge_weights(Path(source), spec, target)
    findings.sort(key=lambda finding: _ORDER[finding.weight])
    return Examination(spec, target, engines, tuple(findings))


def _told(rule: Rule, case: Case) -> list[Finding]:
    """What a rule finds; nothing where there is no formula to compute it by."""
    try:
        return list(rule(case))
    except UnsupportedError:
        return []
