"""Recordings of `posenc bench`: read for the cases of today, and a later run of some that joins."""

from typing import Any

from posenc.bench.cases import all_cases
from posenc.bench.result import Result
from posenc.bench.verdict import headline, lines, noise


def kept(x: Any) -> Any:
    """The same, with numbers of four digits."""
    if isinstance(x, float):
        return float(f"{x:.4g}")
    if isinstance(x, list):
        return [kept(each) for each in x]
    return {key: kept(each) for key, each in x.items()} if isinstance(x, dict) else x


def results(report: dict[str, Any]) -> list[Result]:
    """What was recorded of today's cases, in their order."""
    recorded = {case["name"]: case for case in report["cases"]}
    return [Result.from_json(case, recorded.get(case.name)) for case in all_cases()]


def measured_in(report: dict[str, Any]) -> list[Result]:
    """Those of which it has times: a recording may be of some cases alone."""
    return [result for result in results(report) if result.values]


def merged(whole: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """`whole` with the cases of `part`, a later run of some of them; figures are judged anew.

    Raises ValueError for a smoke run and for another version of the file.
    """
    if part["quick"] or part["version"] != whole["version"]:
        raise ValueError(
            f"{part['command']} (quick: {part['quick']}, version {part['version']}) cannot join a "
            f"recording of version {whole['version']}: give a run of whole sizes by this posenc"
        )
    source = {name: part[name] for name in ("command", "started", "machine")}
    cases = {case["name"]: case for case in whole["cases"]}
    cases |= {case["name"]: case | {"recorded": source} for case in part["cases"]}
    joined = whole | {"cases": list(cases.values())}
    found = results(joined)
    table = lines(found)
    return joined | {
        "headline": headline(table),
        "noise": noise(found),
        "figures": [line.to_json() for line in table],
    }
