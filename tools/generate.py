"""Write the pages that are kept: tables and properties from the classes, figures from their data.

python tools/generate.py            write
python tools/generate.py --check    fail where something is stale
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import benchmark
import catalogue
import properties

import posenc
from posenc.testing import all_peers

ROOT = Path(__file__).parent.parent
READMES = {"en": ROOT / "README.md", "zh": ROOT / "README.zh-CN.md"}
REFERENCE = ROOT / "docs" / "en" / "reference"
DATA = ROOT / "docs" / "conformance.json"
BEGIN, END = "<!-- catalogue: make generate -->", "<!-- end of catalogue -->"

HEAD = """# Conformance

Every encoding against the formula of its paper and, where there is one, against an independent
implementation with the same weights. An error is the largest one over all cases, relative to values
above 1, in float64; the gradient is that of inputs and position parameters. What is allowed is
1e-12 unless the last column says why it cannot be.

This page is generated from `conformance.json`, which `make conformance` measures
(`posenc check --all --peers tests.peers`) with {versions}.
"""


def written() -> dict[Path, str]:
    """Every generated page, as it should be."""
    pages = {path: readme(path.read_text(), language) for language, path in READMES.items()}
    pages[REFERENCE / "properties.md"] = properties.page(properties.cards())
    pages[REFERENCE / "conformance.md"] = conformance(json.loads(DATA.read_text()))
    return pages | benchmark.pages()


def readme(text: str, language: str) -> str:
    """A README with the catalogue and what was measured between their marks."""
    text = benchmark.between(text, (BEGIN, END), catalogue.table(language), language)
    return benchmark.readme(text, language)


def conformance(report: dict[str, Any]) -> str:
    """The conformance page: agreements first, then the check suite's counts."""
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    lines = [HEAD.format(versions=versions)]
    lines += ["| encoding | oracle | cases | forward | gradient | status | allowed, and why |"]
    lines += ["|---|---|---|---|---|---|---|", *map(agreement, report["peers"])]
    lines += ["", "## The check suite", "", "| encoding | passed | failed | skipped by its tags |"]
    lines += ["|---|---|---|---|"]
    for example, counted in report["checks"].items():
        counts = (str(counted.get(status, 0)) for status in ("passed", "failed", "skipped"))
        lines.append(f"| `{example}` | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"


def agreement(agreed: dict[str, Any]) -> str:
    errors = ("-" if e is None else f"{e:.1e}" for e in (agreed["forward"], agreed["gradient"]))
    why = ""
    if agreed["cap"]:
        allowed = (agreed["allowed_forward"], agreed["allowed_gradient"])
        why = "{:.0e}, {:.0e}: ".format(*allowed) + agreed["cap"]
    # An address as long as the page is wide would push the figures off it.
    oracle = re.sub(r"https://([^/ ]+)\S*", r"[\1](\g<0>)", agreed["oracle"])
    cells = (agreed["encoding"], oracle, str(agreed["cases"]), *errors, agreed["status"], why)
    return "| " + " | ".join(cells) + " |"


def problems() -> Iterator[str]:
    """What is stale, in one line each."""
    for path, text in written().items():
        if path.read_text() != text:
            yield f"{path.relative_to(ROOT)} is stale: run `make generate`"
    report = json.loads(DATA.read_text())
    # An oracle's text holds the version that was met; what it compares is the part after it.
    measured = {(row["encoding"], row["oracle"].partition(": ")[2]) for row in report["peers"]}
    known = {(peer.encoding, peer.what) for peer in all_peers(package="tests.peers")}
    examples = {repr(e) for kind in posenc.encodings().values() for e in kind.examples()}
    for missing in sorted(f"{name}, {what}" for name, what in measured ^ known):
        yield f"docs/conformance.json is stale ({missing}): run `make conformance`"
    for missing in sorted(examples ^ set(report["checks"])):
        yield f"docs/conformance.json is stale ({missing}): run `make conformance`"


def main() -> int:
    for path in READMES.values():
        for mark in (BEGIN, END, *benchmark.README_MARKS):
            if mark not in path.read_text():
                print(f"{path.name} lacks the mark {mark}")
                return 1
    if "--check" in sys.argv[1:]:
        stale = list(problems())
        print(*stale, sep="\n", end="\n" if stale else "")
        return 1 if stale else 0
    for path, text in written().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
