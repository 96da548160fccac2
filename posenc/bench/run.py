"""Many cases, each in a fresh process, into bench.json and bench.html."""

import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.atomic_files import write_json
from posenc.bench.case import Case, Options
from posenc.bench.cases import chosen
from posenc.bench.machine import machine
from posenc.bench.page import write_page
from posenc.bench.result import Result
from posenc.bench.verdict import headline, lines, noise
from posenc.bench.worker import answer
from posenc.errors import positive, whole
from posenc.lab.hardware import cores

VERSION = 2
# The longest that a process may take: one that hangs must not hold the others up.
LIMIT_SECONDS = 900.0
# Imported before workers begin; a peer that is not installed is skipped. Not posenc, whose kernels
# have all threads in the process that imported it, and one in its forks.
PRELOADED = (
    "torch",
    *(f"transformers.models.{name}.modeling_{name}"
      for name in ("llama", "cohere", "t5", "xlnet", "deberta_v2", "qwen2_vl")),
    "x_transformers",
    "rotary_embedding_torch",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    results: list[Result]
    data: dict[str, Any]
    page: Path


def bench(
    options: Options, command: str, tell: Callable[[int, int, Result], None] | None = None
) -> Outcome:
    """Measure what was chosen; bench.json is written after each case, so an end loses little.

    `tell` hears of each case as it is done. Raises UnknownNameError for an unknown group,
    SettingError for settings that are not positive, OSError where nothing can be written.
    """
    threads = cores() if options.threads is None else options.threads
    positive("bench", seconds=options.seconds)
    whole("bench", threads=threads)
    cases = chosen(options.only, options.quick)
    options.out.mkdir(parents=True, exist_ok=True)
    about = {
        "version": VERSION,
        "command": command,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "quick": options.quick,
        "machine": machine(threads),
    }
    results: list[Result] = []
    for case in cases:
        results.append(measured(case, options, threads))
        write_json(options.out / "bench.json", report(about, results))
        if tell is not None:
            tell(len(results), len(cases), results[-1])
    data = report(about, results)
    return Outcome(results, data, write_page(options.out, data, results))


def report(about: dict[str, Any], results: Sequence[Result]) -> dict[str, Any]:
    """What bench.json holds: raw values, what they come to, and the table of figures."""
    table = lines(results)
    return {
        **about,
        "headline": headline(table),
        "noise": noise(results),
        "figures": [line.to_json() for line in table],
        "cases": [result.to_json() for result in results],
    }


def measured(case: Case, options: Options, threads: int) -> Result:
    """One case: all contestants in one process, or for memory each in a process of each round."""
    request = {
        "case": case.name,
        "contestant": None,
        "quick": options.quick,
        "seconds": options.seconds,
        "threads": threads,
    }
    if case.measure != "memory":
        answer = _ask(request)
        if "failed" in answer:
            return Result(case, missing=dict.fromkeys(case.contestants, answer["failed"]))
        return Result(case, answer["values"], answer["missing"], answer["note"])
    values: dict[str, list[float]] = {}
    missing: dict[str, str] = {}
    for _ in range(1 if options.quick else case.rounds[0]):
        for name in (name for name in case.contestants if name not in missing):
            answer = _ask(request | {"contestant": name})
            if "value" in answer:
                values.setdefault(name, []).append(answer["value"])
            else:
                missing[name] = answer.get("missing") or answer["failed"]
    ran = {name: values[name] for name in case.contestants if name not in missing}
    return Result(case, ran, missing)


def _ask(request: dict[str, Any]) -> dict[str, Any]:
    """The answer of a fresh worker, or {"failed": why}."""
    with tempfile.TemporaryDirectory() as folder:
        process = _context().Process(target=answer, args=(request, folder))
        process.start()
        process.join(LIMIT_SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
            return {"failed": f"it took more than {LIMIT_SECONDS:.0f} s"}
        file, said = Path(folder, "answer.json"), Path(folder, "said.txt")
        if process.exitcode == 0 and file.exists():
            return json.loads(file.read_text("utf-8"))
        lines = said.read_text(errors="replace").split("\n") if said.exists() else []
    last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
    return {"failed": f"the process ended with code {process.exitcode}: {last.strip()}"}


def _context() -> Any:
    """How workers start: as forks of a server that has imported what all of them need.

    Such a fork is as fresh as a new process, and does not wait seconds for its imports.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    return context
