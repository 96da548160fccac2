"""Write what is generated: catalogues and properties from the classes, conformance from its data.

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
import gallery
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
    cards = properties.cards()
    pages = {path: readme(path.read_text(), language) for language, path in READMES.items()}
    pages[REFERENCE / "properties.md"] = properties.page(cards)
    pages[REFERENCE / "conformance.md"] = conformance(json.loads(DATA.read_text()))
    return pages | catalogue.pages(cards) | benchmark.pages()


def readme(text: str, language: str) -> str:
    """A README with the catalogue and what was measured between their marks."""
    text = benchmark.between(text, (BEGIN, END), catalogue.table(language))
    return benchmark.readme(text, language)


def conformance(report: dict[str, Any]) -> str:
    """The conformance page: agreements first, then the check suite's counts."""
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    lines = [HEAD.format(versions=versions)]
    lines += ["| encoding | oracle | cases | forward | gradient | status | allowed, and why |"]
    lines += ["|---|---|---|---|---|---|---|", *map(agreement, report["peers"])]
    lines += ["", "## The check suite", "", "| encoding | passed | failed | skipped by its tags |"]
    lines += ["|---|---|---|---|"]
    for example, found in report["checks"].items():
        counts = (str(found.get(status, 0)) for status in ("passed", "failed", "skipped"))
        lines.append(f"| `{example}` | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"


def agreement(found: dict[str, Any]) -> str:
    errors = ("-" if e is None else f"{e:.1e}" for e in (found["forward"], found["gradient"]))
    why = ""
    if found["cap"]:
        allowed = (found["allowed_forward"], found["allowed_gradient"])
        why = "{:.0e}, {:.0e}: ".format(*allowed) + found["cap"]
    # An address as long as the page is wide would push the figures off it.
    oracle = re.sub(r"https://([^/ ]+)\S*", r"[\1](\g<0>)", found["oracle"])
    cells = (found["encoding"], oracle, str(found["cases"]), *errors, found["status"], why)
    return "| " + " | ".join(cells) + " |"


def problems() -> Iterator[str]:
    """What is stale, in one line each."""
    pages = written()
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:
            yield f"{path.relative_to(ROOT)} is stale: run `make generate`"
    for path in others(pages):
        yield f"{path.relative_to(ROOT)} is of no encoding: remove it"
    yield from gallery.problems()
    report = json.loads(DATA.read_text())
    # An oracle's text holds the version that was met; what it compares is the part after it.
    measured = {
        (found["encoding"], found["oracle"].partition(": ")[2]) for found in report["peers"]
    }
    known = {(peer.encoding, peer.what) for peer in all_peers(package="tests.peers")}
    examples = {repr(e) for kind in posenc.encodings().values() for e in kind.examples()}
    for missing in sorted(f"{name}, {what}" for name, what in measured ^ known):
        yield f"docs/conformance.json is stale ({missing}): run `make conformance`"
    for missing in sorted(examples ^ set(report["checks"])):
        yield f"docs/conformance.json is stale ({missing}): run `make conformance`"


def others(pages: dict[Path, str]) -> list[Path]:
    """Pages of the catalogue that nothing generates any more."""
    folders = catalogue.FOLDERS.values()
    return sorted(path for f in folders for path in f.glob("*.md") if path not in pages)


def main() -> int:
    for path in READMES.values():
        for mark in (BEGIN, END, *benchmark.README_MARKS):
            if mark not in path.read_text():
                print(f"{path.name} lacks the mark {mark}")
                return 1
    if "--check" in sys.argv[1:]:
        found = list(problems())
        print(*found, sep="\n", end="\n" if found else "")
        return 1 if found else 0
    # Pages show the pictures that there are.
    gallery.write()
    for path, text in written().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
