"""`posenc bench`: speed and memory against peers and against no position."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from typer import Option

from posenc.bench.case import Options
from posenc.commands.app import AsJson, errors, print_table

if TYPE_CHECKING:
    from posenc.bench.result import Result
    from posenc.bench.timing import Interval
    from posenc.bench.verdict import Figure, Line


def bench(
    only: Annotated[
        str | None,
        Option(
            help="Groups between commas (rotary, attention, routing, memory, decode, overhead, "
            "model, training, positions, conversion, start), words of the cases' names, or one "
            "whole name.",
            show_default="all",
        ),
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="A smoke run: one tiny case of each group.")
    ] = False,
    seconds: Annotated[
        float, Option(help="About how long the rounds of a case take.")
    ] = Options.seconds,
    threads: Annotated[
        int | None, Option(help="Threads of torch.", show_default="one for each core")
    ] = None,
    out: Annotated[Path, Option(help="Folder of bench.json and bench.html.")] = Options.out,
    as_json: AsJson = False,
) -> None:
    """Time posenc against peers and against no position, and write a page.

    All of it takes about 45 minutes. Peers that are not installed (the extra "bench") are
    left out; ratios are what counts, and what other programs do meanwhile makes them unsure.
    """
    with errors():
        # The page is drawn at the end, where it would be late to miss what draws it.
        import matplotlib  # noqa: F401

        from posenc.bench.cases import words_of
        from posenc.bench.machine import command_line
        from posenc.bench.run import bench as run

        words = () if only is None else words_of(only)
        options = Options(out, words, quick, seconds, threads)
        outcome = run(options, command_line(), _tell)
    if as_json:
        print(json.dumps(outcome.data, indent=2))
        return
    from posenc.bench.verdict import figures, lines

    _print_figures(lines(outcome.results))
    for figure in figures(outcome.results):
        if figure.missed or figure.lost:
            print(_short(figure))
    print(f"{outcome.data['headline']}.")
    if quick:
        print("A smoke run at tiny sizes (--quick): nothing here says how fast anything is.")
    if outcome.data["noise"]:
        print(outcome.data["noise"])
    if outcome.data["machine"]["gpu"] is None:
        print("Everything ran on the CPU: figures for GPUs are missing.")
    print(f"page: {outcome.page}")


def _tell(done: int, of: int, result: "Result") -> None:
    print(f"[{done}/{of}] {result.case.name}: {_shown(result)}", file=sys.stderr)


def _shown(result: "Result") -> str:
    """Each contestant against the floor, in one line."""
    case, parts = result.case, []
    for name in case.contestants:
        interval = result.against(name, case.floor)
        if name != case.floor:
            why = result.missing.get(name, f"{case.floor} did not run")
            figure = f"not available: {why}" if interval is None else f"{interval.median:,.2f}"
            parts.append(f"{name} {figure}")
    return f"{', '.join(parts)} ({case.beside} {case.floor})"


def _short(figure: "Figure") -> str:
    """What a case found where it had another figure to reach."""
    case, goal = figure.result.case, figure.goal
    found = f"{goal.who} {_number(figure.found, case.unit)} {case.beside} {goal.base}"
    beside = ""
    if figure.lost and figure.peer:
        name, against = figure.peer
        beside = f", {_number(against, case.unit)} {case.beside} {name}"
    if figure.least:
        name, least = figure.least
        beside += f", {name} {_number(least, case.unit)}"
    return f"{figure.verdict}: {case.name}: {found}, at most {goal.reach:g}{beside}"


def _measured(interval: "Interval | None", unit: str) -> str:
    if interval is None:
        return "-"
    return _number(interval, unit) if unit == "x" else f"{_number(interval, unit)} {unit}"


def _number(interval: "Interval | None", unit: str) -> str:
    if interval is None:
        return "-"
    return str(interval) if unit == "x" else f"{interval.median:.0f}"


def _print_figures(table: list["Line"]) -> None:
    if not table:
        return
    shown = Table("figure to reach", "case", "found", "at most", "", "beside the best peer")
    row = None
    for line in table:
        goal, beside = line.goal, line.worst_beside_peer
        title, row = ("" if goal.row == row else goal.row), goal.row
        verdict = line.verdict + (", noisy" if line.noisy else "")
        shown.add_row(
            title,
            goal.line,
            _measured(line.worst.found if line.worst else None, line.unit),
            f"{goal.reach:g}",
            verdict,
            f"{_measured(beside.peer[1], line.unit)} {beside.peer[0]}"
            if beside and beside.peer
            else "-",
        )
    print_table(shown)
