"""Choosing, running and reporting checks."""

import importlib
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import torch

from posenc.encoding import Encoding
from posenc.errors import CheckError, SettingError, is_finite, shown
from posenc.testing import backends, caches, geometry, lowering, masks, numbers, objects
from posenc.testing.fixtures import Check, tolerating


@dataclass(frozen=True)
class Result:
    """One check of one encoding; detail says by how much the claim failed, or why not asked."""

    encoding: str
    check: str
    claim: str
    status: Literal["passed", "failed", "expected", "skipped"]
    detail: str = ""


def all_checks() -> dict[str, Check]:
    """Every check by name, module after module."""
    modules = (objects, numbers, geometry, masks, backends, lowering, caches)
    return {name: check for module in modules for name, check in _checks_of(module).items()}


def chosen_checks(only: str | Iterable[str] | None = None) -> list[str]:
    """Names of checks: all; those that are named; or "behaviour", all but those of the object.

    Code that is wrapped to be checked is built and shown as its wrapper is, which says nothing of
    what it computes. Raises CheckError for a name of no check.
    """
    names = list(all_checks())
    if only is None:
        return names
    if only == "behaviour":
        return [name for name in names if name not in _checks_of(objects)]
    asked = {only} if isinstance(only, str) else set(only)
    unknown = asked - set(names)
    if unknown:
        raise CheckError(
            f"only={only!r} names no check: {', '.join(sorted(unknown))}; give names of checks, or "
            '"behaviour" for all but those of the object'
        )
    return [name for name in names if name in asked]


def _checks_of(module: ModuleType) -> dict[str, Check]:
    return {
        name: value
        for name, value in vars(module).items()
        if name.startswith("check_") and value.__module__ == module.__name__
    }


def claim_of(check: Check) -> str:
    """The sentence that a check holds an encoding to."""
    return inspect.getdoc(check) or ""


def run_checks(
    encoding: Encoding,
    *,
    expected_failures: Mapping[str, str] | None = None,
    tolerance: float = 0.0,
    only: str | Iterable[str] | None = None,
) -> list[Result]:
    """The result of every check; nothing is raised for a claim that fails.

    expected_failures  {check name: reason}; one of these that passes counts as failed, so that
                       the list cannot go stale
    tolerance          error, relative to values above 1, that is allowed wherever numbers are
                       compared but for sameness of bits: 1e-5 for code that computes in float32
    only               "behaviour" for all checks but those of the object, or names of checks
    """
    expected = expected_failures or {}
    return [
        run_check(encoding, name, expected_failure=expected.get(name), tolerance=tolerance)
        for name in chosen_checks(only)
    ]


def check_encoding(
    encoding: Encoding,
    *,
    expected_failures: Mapping[str, str] | None = None,
    tolerance: float = 0.0,
    only: str | Iterable[str] | None = None,
) -> None:
    """Run the suite as `run_checks` does; raise CheckError with every claim that failed.

        check_encoding(ALiBi(8))
        check_encoding(Theirs(64), only="behaviour", tolerance=1e-5)

    Positions of the checks are counted: what reads several coordinates per token must place counts
    by itself, as AxialRotary does by its grid.

    Raises TypeError for a class: give an instance, since settings decide what is claimed.
    """
    if not isinstance(encoding, Encoding):
        raise TypeError(f"check_encoding takes an instance of posenc.Encoding, got {encoding!r}")
    unknown = set(expected_failures or {}) - set(all_checks())
    if unknown:
        raise CheckError(f"expected_failures names no check: {', '.join(sorted(unknown))}")
    results = run_checks(
        encoding, expected_failures=expected_failures, tolerance=tolerance, only=only
    )
    failed = [result for result in results if result.status == "failed"]
    if failed:
        lines = [f"  {result.check}: {result.detail}" for result in failed]
        refused = sum("raised PositionsError" in result.detail for result in failed)
        if 2 * refused > len(failed):
            lines.append(
                "Most refused the positions of the checks, which are counted (t,): let the "
                "encoding place them by itself, as AxialRotary(grid=(height, width)) does"
            )
        raise CheckError(
            f"{called(encoding)} fails {len(failed)} of {len(results)} checks:\n" + "\n".join(lines)
        )


def parametrize_with_checks(
    encodings: Iterable[Encoding],
    *,
    expected_failures: Mapping[str, str] | None = None,
    only: str | Iterable[str] | None = None,
) -> Any:
    """A pytest decorator: one case per encoding and check, for test(encoding, check).

    expected_failures and only are as in `run_checks`.
    """
    import pytest

    cases = []
    checks = {name: all_checks()[name] for name in chosen_checks(only)}
    for encoding in encodings:
        for name, check in checks.items():
            reason = (expected_failures or {}).get(name)
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
            if not applies(check, encoding):
                continue
            if (lack := lacks(check)) is not None:
                marks.append(pytest.mark.skip(reason=lack))
            case = f"{called(encoding)}-{name}"
            cases.append(pytest.param(encoding, check, id=case, marks=marks))
    return pytest.mark.parametrize(("encoding", "check"), cases)


def applies(check: Check, encoding: Encoding) -> bool:
    """Whether an encoding's tags or terms make the claim of this check."""
    when = getattr(check, "when", None)
    try:
        return when is None or bool(when(encoding))
    except Exception:
        # One that cannot be lowered tells nothing of its terms; the check names what it raises.
        return True


def called(encoding: Encoding) -> str:
    """The repr of an encoding; the name of its class where a setting is not kept."""
    try:
        return repr(encoding)
    except Exception:
        # Whatever a stranger's class raises; `check_repr` tells of it.
        return type(encoding).__name__


def examples_of(name: str, kind: type[Encoding]) -> tuple[list[Encoding], list[Result]]:
    """The encodings among the examples of a class; where there is none, that this check failed."""
    yielded = list(kind.examples())
    examples = [example for example in yielded if isinstance(example, Encoding)]
    if examples:
        return examples, []
    claim = claim_of(objects.check_examples)
    what = ", ".join(map(shown, yielded)) or "nothing"
    detail = f"{claim} examples() of {name} yields {what}, so that there is nothing to check"
    return [], [Result(name, "check_examples", claim, "failed", detail)]


def lacks(check: Check) -> str | None:
    """What a check needs that is not installed, in a sentence."""
    for module in getattr(check, "needs", ()):
        try:
            importlib.import_module(module)
        except ImportError:
            return f"it needs {module}, which is not installed"
    return None


def run_check(
    encoding: Encoding,
    name: str,
    *,
    expected_failure: str | None = None,
    tolerance: float = 0.0,
) -> Result:
    """The result of one check, by its name; arguments as in `run_checks`.

    Raises SettingError for a tolerance that is no finite number of 0 or more.
    """
    if not is_finite(tolerance) or tolerance < 0:
        raise SettingError(f"tolerance={tolerance!r}: a finite number, 0 or more, is needed")
    check = all_checks()[name]
    claim = claim_of(check)

    def result(
        status: Literal["passed", "failed", "expected", "skipped"], detail: str = ""
    ) -> Result:
        return Result(called(encoding), name, claim, status, detail)

    reason = "its tags do not claim this" if not applies(check, encoding) else lacks(check)
    if reason is not None:
        return result("skipped", reason)
    try:
        with torch.random.fork_rng(devices=[]), tolerating(tolerance):
            torch.manual_seed(0)
            check(encoding)
    except CheckError as error:
        failure = f"{claim} {error}"
    except Exception as error:
        failure = f"{claim} raised {type(error).__name__}: {error}"
    else:
        if expected_failure is None:
            return result("passed")
        return result("failed", f"expected to fail ({expected_failure}), but it passed")
    return result("failed" if expected_failure is None else "expected", failure)
