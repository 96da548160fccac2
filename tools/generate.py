"""Write the pages that are kept: tables and properties from the classes, figures from their data.

python tools/generate.py            write
python tools/generate.py --check    fail where something is stale
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import benchmark
import catalogue
import conformance
import evidence
import gpu
import properties
import published_models
import shard_costs

import posenc
from posenc.testing import all_peers
from posenc.words import LANGUAGES, Language

ROOT = Path(__file__).parent.parent
READMES: dict[Language, Path] = {"en": ROOT / "README.md", "zh": ROOT / "README.zh-CN.md"}
REFERENCES = {language: ROOT / "docs" / language / "reference" for language in LANGUAGES}
CLAIMS = "evidence/*.md"
DATA = ROOT / "docs" / "conformance.json"
BEGIN, END = "<!-- catalogue: make generate -->", "<!-- end of catalogue -->"


def written() -> dict[Path, str]:
    """Every generated page, as it should be."""
    pages = {path: readme(path.read_text(), language) for language, path in READMES.items()}
    measured, report = properties.pages(properties.cards()), json.loads(DATA.read_text())
    models = published_models.published()
    for language, folder in REFERENCES.items():
        pages[folder / "properties.md"] = measured[language]
        pages[folder / "conformance.md"] = conformance.page(report, language)
        pages[folder / "models.md"] = published_models.page(models, language)
        place = folder.parent / "evidence"
        pages |= {place / name: text for name, text in evidence.pages(language).items()}
    return pages | benchmark.pages() | gpu.pages() | shard_costs.pages()


def readme(text: str, language: Language) -> str:
    """A README with the catalogue and what was measured between their marks."""
    text = benchmark.between(text, (BEGIN, END), catalogue.table(language), language)
    return benchmark.readme(text, language)


def gone(pages: Mapping[Path, str]) -> list[Path]:
    """Pages of claims that there are no more."""
    kept = (path for language in LANGUAGES for path in (ROOT / "docs" / language).glob(CLAIMS))
    return sorted(path for path in kept if path not in pages)


def problems() -> Iterator[str]:
    """What is stale, in one line each."""
    pages = written()
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:
            yield f"{path.relative_to(ROOT)} is stale: run `make generate`"
    for path in gone(pages):
        yield f"{path.relative_to(ROOT)} is of no claim: run `make generate`"
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
    pages = written()
    for path in gone(pages):
        path.unlink()
    for path, text in pages.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
