"""Keep the results of a benchmark for the docs, and show them there.

    python tools/benchmark.py posenc-bench/bench.json zen5

writes docs/benchmark/zen5.json, one recording for each of RECORDINGS, with times of four digits,
which is more than clocks of a shared machine know. A recording of `--only` takes the place of its
own cases, each of which then tells the command, the day and the machine by which it was `recorded`.
`make generate` judges the times by the figures that the cases declare today, and shows them in the
pages of the benchmark; the first recording also in the READMEs.
"""

import json
import math
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import chinese
from benchmark_recording import kept, measured_in, merged, results
from benchmark_texts import VERDICTS_SHOWN, WORDS
from punctuate import punctuate

from posenc.bench.case import Goal
from posenc.bench.cases import all_cases
from posenc.bench.result import Result
from posenc.bench.timing import Interval
from posenc.bench.training import ENCODINGS, SHAPES, TrainingSetting
from posenc.bench.verdict import VERDICTS, Figure, Line, figures, headline, lines, noise

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs" / "benchmark"
# By the file's name, and what the kernels are for; READMEs show the first. A ratio is that of a
# processor, not of an instruction set.
RECORDINGS = {
    "zen5": "Zen 5 / AVX-512 BF16",
    "zen4": "Zen 4 / AVX-512 BF16",
    "amx": "AMX",
    "avx2": "AVX2",
}
PAGES = {language: ROOT / "docs" / language / "howto" / "benchmark.md" for language in ("en", "zh")}
MARKS = "<!-- figures: make generate -->", "<!-- end of figures -->"
README_MARKS = "<!-- speed: make generate -->", "<!-- end of speed -->"


def measured_again(report: dict[str, Any], language: str) -> str:
    """Which cases are of later runs, and on which machine where that is another."""
    names = {case.name for case in all_cases()}
    sources = [case.get("recorded") for case in report["cases"] if case["name"] in names]
    counts = Counter(json.dumps(source) for source in sources if source)
    sentences = []
    for source, cases in counts.items():
        run, keys = json.loads(source), ("cpu", "cores", "torch")
        other = any(run["machine"][key] != report["machine"][key] for key in keys)
        machine = ", {cpu}, {cores} cores, torch {torch}".format(**run["machine"]) if other else ""
        told = {"command": run["command"], "day": run["started"][:10], "machine": machine}
        sentences.append(WORDS[language]["again"].format(cases=cases, **told))
    return "".join(sentences)


def recordings() -> list[dict[str, Any]]:
    """Those that are kept, each told what its kernels are for."""
    return [
        json.loads((DATA / f"{name}.json").read_text()) | {"kernels": kernels}
        for name, kernels in RECORDINGS.items()
    ]


def pages() -> dict[Path, str]:
    """The pages of the benchmark as they should be."""
    first, *others = recordings()
    texts = {}
    for language, path in PAGES.items():
        parts = [page(first, results(first), language), *(elsewhere(x, language) for x in others)]
        texts[path] = between(path.read_text(), MARKS, "\n\n".join(parts), language)
    return texts


def elsewhere(report: dict[str, Any], language: str) -> str:
    """Another recording: of what it measured each kind of figure, with the one that fares worst."""
    found, told = measured_in(report), WORDS[language]
    said = words(report, found, language, "elsewhere") + measured_again(report, language)
    return f"{said}\n\n{grid(told['rows'], row_cells(found, language))}"


def readme(text: str, language: str) -> str:
    """A README with what was measured between its marks."""
    report, *others = recordings()
    found = results(report)
    said = words(report, found, language, "summary") + measured_again(report, language)
    said += "".join(words(other, measured_in(other), language, "besides") for other in others)
    told = WORDS[language]
    rows = grid(told["rows"], row_cells(found, language))
    folded = ["<details>", f"<summary>{told['fold']}</summary>", "", rows, "", "</details>"]
    parts = [trained(found, language), said, "\n".join(folded)]
    return between(text, README_MARKS, "\n\n".join(parts), language)


def between(text: str, marks: tuple[str, str], inside: str, language: str) -> str:
    """`text` with `inside` between its two marks; names of peers stand in Chinese as Latin does."""
    inside = punctuate(inside) if language == "zh" else inside
    before, _, rest = text.partition(marks[0])
    _, _, after = rest.partition(marks[1])
    return f"{before}{marks[0]}\n{inside}\n{marks[1]}{after}"


def page(report: dict[str, Any], found: Sequence[Result], language: str) -> str:
    told = WORDS[language]
    said = words(report, found, language, "where") + measured_again(report, language)
    if all(len(v) == 1 for r in found if r.case.measure == "memory" for v in r.values.values()):
        said = f"{said.rstrip()} {told['single']}"
    short = [figure for figure in figures(found) if figure.missed or figure.lost]
    parts = [said, grid(told["lines"], line_rows(lines(found), language))]
    if short:
        parts += [told["short"], grid(told["cases"], [case_row(f, language) for f in short])]
    return "\n\n".join(parts)


def words(report: dict[str, Any], found: Sequence[Result], language: str, key: str) -> str:
    machine, table, told = report["machine"], lines(found), WORDS[language]
    counts = {verdict: sum(line.verdict == verdict for line in table) for verdict in VERDICTS}
    said = told["counts"].format(headline=headline(table), total=len(table), **counts)
    return told[key].format(
        command=report["command"],
        day=report["started"][:10],
        headline=said,
        noise=noise(found, told["noise"]) or "",
        kernels=report.get("kernels", machine["native"]),
        **{name: machine[name] for name in ("cpu", "cores", "torch")},
    )


def line_rows(table: Sequence[Line], language: str) -> Iterator[Sequence[str]]:
    above = None
    for line in table:
        row, shown = line.goal.row, line.worst
        found = measured(shown.found if shown else None, line.unit, language)
        found += VERDICTS_SHOWN[language][line.verdict] + least(shown, language)
        found += WORDS[language]["noisy"] if line.noisy else ""
        case = chinese.line(line.goal.line) if language == "zh" else line.goal.line
        what = "" if row == above else row_name(row, language)
        most = f"{line.goal.reach:g}" + ("" if line.unit == "x" else f" {line.unit}")
        yield what, case, found, most, beside(line.worst_beside_peer, language)
        above = row


def case_row(figure: Figure, language: str) -> Sequence[str]:
    found = measured(figure.found, figure.result.case.unit, language)
    found += VERDICTS_SHOWN[language][figure.verdict] + least(figure, language)
    most = limit(figure.goal, figure.result.case.unit, language)
    return figure.result.case.name, figure.goal.who, found, most, beside(figure, language)


def limit(goal: Goal, unit: str, language: str) -> str:
    """The figure to reach, and what it is a multiple of."""
    told = WORDS[language]
    name = chinese.PEERS.get(goal.base, goal.base) if language == "zh" else goal.base
    word = told["times"] if unit == "x" else told["above"].format(unit=unit)
    return f"{goal.reach:g} {word} {name}"


def measured(found: Interval | None, unit: str, language: str) -> str:
    if found is None:
        return WORDS[language]["absent"]
    digits, of = (2, "") if unit == "x" else (0, f" {unit}")
    middle = f"{found.median:.{digits}f}{of}"
    spread = f" ({found.low:.{digits}f}, {found.high:.{digits}f})"
    return middle if found.low == found.high else middle + spread


def least(figure: Figure | None, language: str) -> str:
    """Beside a figure that is missed, what it cannot leave out."""
    if figure is None or figure.least is None:
        return ""
    name, found = figure.least
    shown = measured(found, figure.result.case.unit, language).partition(" (")[0]
    name = chinese.PEERS.get(name, name) if language == "zh" else name
    return WORDS[language]["least"].format(name=name, found=shown)


def beside(figure: Figure | None, language: str) -> str:
    """How it compares with its best peer."""
    if figure is None or figure.peer is None:
        return WORDS[language]["alone"]
    name, against = figure.peer
    name = chinese.PEERS.get(name, name) if language == "zh" else name
    unit = figure.result.case.unit
    if unit == "x":
        return f"{against.median:.2f} {WORDS[language]['times']} {name}"
    return f"{against.median:.0f} {WORDS[language]['above'].format(unit=unit)} {name}"


def row_cells(found: Sequence[Result], language: str) -> Iterator[Sequence[str]]:
    """For each row of the table, how many lines are met, and its worst figures."""
    rows: dict[str, list[Line]] = {}
    for line in lines(found):
        rows.setdefault(line.goal.row, []).append(line)
    for row, members in rows.items():
        met = sum(line.verdict == "met" for line in members)
        # The farthest above its figure, whatever that is.
        worst = max(members, key=excess)
        interval = worst.worst.found if worst.worst else None
        shown = measured(interval, worst.unit, language).partition(" (")[0]
        peered = [line.worst_beside_peer for line in members if line.worst_beside_peer]
        slowest = max(peered, key=lambda f: f.peer[1].median if f.peer else 0.0, default=None)
        yield (
            row_name(row, language),
            WORDS[language]["of"].format(count=met, of=len(members)),
            emphasised(shown, excess(worst) > 1) + least(worst.worst, language),
            limit(worst.goal, worst.unit, language),
            emphasised(beside(slowest, language), slowest is not None and slowest.lost),
        )


def emphasised(text: str, strong: bool) -> str:
    return f"**{text}**" if strong else text


def excess(line: Line) -> float:
    worst = line.worst
    return worst.found.median / line.goal.reach if worst and worst.found else -math.inf


def trained(found: Sequence[Result], language: str) -> str:
    """The training steps: encodings across, posenc and peers down, as ratios to no position."""
    told = WORDS[language]
    rows = []
    for shape in SHAPES:
        of_shape = {
            result.case.setting.encoding: result
            for result in found
            if isinstance(result.case.setting, TrainingSetting)
            and result.case.setting.shape == shape
        }
        for who in ("posenc", "x-transformers"):
            cells = []
            for encoding in ENCODINGS:
                result = of_shape[encoding]
                against = result.against(who, result.case.floor)
                cells.append(f"{against.median:.2f}" if against else "-")
            rows.append((told["length"].format(length=shape.length, who=who), *cells))
    return grid(("", *ENCODINGS), rows)


def row_name(row: str, language: str) -> str:
    return chinese.ROWS.get(row, row) if language == "zh" else row


def grid(head: Sequence[str], rows: Any) -> str:
    whole = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in whole)


def keep(report: dict[str, Any], name: str) -> str:
    """Write a report as the recording of this name, or into it, and say what it comes to.

    Raises ValueError for another name, for other kernels than the recording's, and as `merged`.
    """
    if name not in RECORDINGS:
        raise ValueError(f"a recording {name!r}: give one of {', '.join(RECORDINGS)}")
    data = DATA / f"{name}.json"
    # Where the results were put is nobody's affair.
    report = report | {"command": re.sub(r" --out[ =]\S+", "", report["command"])}
    if data.exists():
        known = json.loads(data.read_text())
        own, other = known["machine"]["native"], report["machine"]["native"]
        if own != other:
            raise ValueError(f"{data.name} is of kernels for {own}, and these ran by {other}")
        if "--only" in shlex.split(report["command"]):
            report = merged(known, report)
    data.write_text(json.dumps(kept(report), separators=(",", ":")) + "\n")
    return f"{data.relative_to(ROOT)}: {report['headline']}"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"python tools/benchmark.py FILE NAME, of {', '.join(RECORDINGS)}")
    try:
        print(keep(json.loads(Path(sys.argv[1]).read_text()), sys.argv[2]))
    except ValueError as error:
        sys.exit(str(error))
