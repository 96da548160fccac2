"""The page of what was measured on GPUs, from docs/gpu.json, which `make gpu` writes."""

import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import benchmark

from posenc.bench.case import Case, Goal
from posenc.bench.gpu.cases import cases
from posenc.bench.gpu.report import result
from posenc.bench.gpu.row import Found
from posenc.words import LANGUAGES, Language

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs" / "gpu.json"
PAGES = {language: ROOT / "docs" / language / "howto" / "gpu.md" for language in LANGUAGES}
MARKS = "<!-- gpu: make generate -->", "<!-- end of gpu -->"
WORDS: dict[Language, dict[str, Any]] = {
    "en": {
        "none": "**No GPU has been at hand: there is no record yet, and no speed is claimed.**",
        "card": "## {gpu}\n\ntorch {torch}, CUDA {cuda}, Triton {triton}.",
        "right": "**Of {all} rows of correctness {right} are right, {wrong} wrong**{others}.",
        "gave up": "; {count} failed before there was a number: {names}",
        "empty": "; {count} compared nothing: {names}",
        "wrong": "; {count} gave wrong numbers: {names}",
        "ceilings": ("what the card can do", ""),
        "figures": ("figure", "case", "as called", "as a CUDA graph", "at most"),
        "peers": ("case", "each beside the first, as called", "as CUDA graphs"),
        "lab": ("encoding", "nats per byte at each length", "seconds", "GiB"),
        "missed": " **missed**",
        "absent": "-",
    },
    "zh": {
        "none": "**手边还没有 GPU：尚无记录，也不声称任何速度。**",
        "card": "## {gpu}\n\ntorch {torch}，CUDA {cuda}，Triton {triton}。",
        "right": "**{all} 行正确性检查中 {right} 行正确，{wrong} 行错误**{others}。",
        "gave up": "；{count} 行还没有得到数就失败了：{names}",
        "empty": "；{count} 行什么也没有比较：{names}",
        "wrong": "；{count} 行得到错误的数：{names}",
        "ceilings": ("这块卡的上限", ""),
        "figures": ("目标", "用例", "直接调用", "作为 CUDA 图", "上限"),
        "peers": ("用例", "各自与第一个之比，直接调用", "作为 CUDA 图"),
        "lab": ("编码", "各长度上每字节的 nats", "秒", "GiB"),
        "missed": " **未达到**",
        "absent": "-",
    },
}


def pages() -> dict[Path, str]:
    """The pages as they should be."""
    record = json.loads(DATA.read_text()) if DATA.exists() else None
    return {
        path: benchmark.between(path.read_text(), MARKS, page(record, language), language)
        for language, path in PAGES.items()
    }


def page(record: dict[str, Any] | None, language: Language) -> str:
    """What stands between the marks: a section for each card, of the newest source on it."""
    if record is None:
        return WORDS[language]["none"]
    sections = (
        section(machine, newest(record["steps"], card), language)
        for card, machine in record["machines"].items()
    )
    return "\n\n".join(sections)


def newest(steps: dict[str, dict[str, Found]], card: str) -> dict[str, dict[str, Found]]:
    """Rows of a card by step, of the source that was measured last: sources are not mixed."""
    of_card = [row for rows in steps.values() for row in rows.values() if row["card"] == card]
    source = max(of_card, key=lambda row: row["when"], default={"source": None})["source"]
    return {
        step: {name: row for name, row in rows.items()
               if (row["card"], row["source"]) == (card, source)}
        for step, rows in steps.items()
    }  # fmt: skip


def section(machine: dict[str, Any], steps: dict[str, dict[str, Found]], language: Language) -> str:
    told = WORDS[language]
    timed = steps.get("kernels", {}) | steps.get("peers", {})
    parts = [
        told["card"].format(**machine),
        correct(steps.get("right", {}), language),
        benchmark.grid(told["ceilings"], ceilings(steps.get("ceilings", {}))),
        benchmark.grid(told["figures"], figures(timed, language)),
        benchmark.grid(told["peers"], beside(steps.get("peers", {}))),
        benchmark.grid(told["lab"], trained(steps.get("lab", {}))),
    ]
    return "\n\n".join(parts)


def correct(rows: dict[str, Found], language: Language) -> str:
    told = WORDS[language]
    checked = {name: row for name, row in rows.items() if "missing" not in row}
    others: dict[str, list[str]] = {"wrong": [], "gave up": [], "empty": []}
    for name, row in checked.items():
        if "failed" in row:
            others["gave up"].append(f"{name} ({row['failed'].partition(':')[0]})")
        # As an earlier record has one.
        elif row.get("gaps") == []:
            others["empty"].append(name)
        elif not row.get("right"):
            others["wrong"].append(name)
    parts = (
        told[kind].format(count=len(names), names="; ".join(names))
        for kind, names in others.items()
        if names
    )
    right = len(checked) - sum(map(len, others.values()))
    counts = {"right": right, "all": len(checked), "wrong": len(others["wrong"])}
    return told["right"].format(others="".join(parts), **counts)


def ceilings(rows: dict[str, Found]) -> Iterator[Sequence[str]]:
    for name, row in rows.items():
        if "gigabytes_per_second" in row:
            yield name, f"{row['gigabytes_per_second']:.0f} GB/s"
        elif "teraflops" in row:
            yield name, f"{row['teraflops']:.0f} TFLOP/s"


def figures(rows: dict[str, Found], language: Language) -> Iterator[Sequence[str]]:
    """Each figure to reach, as it was called and without Python; a row that failed says so."""
    by_row: dict[str, list[Sequence[str]]] = {}
    for case in cases():
        found = rows.get(case.name)
        for goal in case.goals if found else ():
            cells = [cell(case, goal, found, clock, language) for clock in ("values", "graphs")]
            unit = "" if case.unit == "x" else f" {case.unit}"
            line = goal.line, *cells, f"{goal.reach:.2f}{unit}"
            by_row.setdefault(goal.row, []).append(line)
    for row, lines in by_row.items():
        for number, line in enumerate(lines):
            yield "" if number else row, *line


def cell(case: Case, goal: Goal, found: Found | None, clock: str, language: Language) -> str:
    known = result(case, found, clock)
    against = known.against(goal.who, goal.base)
    if against is None:
        return WORDS[language]["absent"]
    shown = benchmark.measured(against, case.unit, language)
    return shown + (WORDS[language]["missed"] if against.median > goal.reach else "")


def beside(rows: dict[str, Found]) -> Iterator[Sequence[str]]:
    for name, row in rows.items():
        if "values" in row:
            yield name, ratios(row["values"]), ratios(row.get("graphs", {}))


def ratios(values: dict[str, list[float]]) -> str:
    medians = {who: statistics.median(each) for who, each in values.items()}
    first = next(iter(medians.values()), 1.0)
    return ", ".join(f"{who} {seconds / first:.2f}" for who, seconds in medians.items()) or "-"


def trained(rows: dict[str, Found]) -> Iterator[Sequence[str]]:
    for name, row in rows.items():
        if "tokens" in row:
            losses = ", ".join(f"{loss:.3f} ({length})" for length, loss in row["losses"].items())
            peak = "-" if row["peak_gib"] is None else f"{row['peak_gib']:.1f}"
            yield name.partition(": ")[2], losses, f"{row['seconds']:.0f}", peak
