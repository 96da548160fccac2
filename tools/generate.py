"""Write what is generated from the classes: the catalogue table of README.md.

python tools/generate.py            write
python tools/generate.py --check    fail where something is stale
"""

import sys
from pathlib import Path

import posenc
from posenc.encoding import Encoding

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- catalogue: make generate -->", "<!-- end of catalogue -->"


def catalogue() -> str:
    """One row per encoding: name, class, what it does, kind, source."""
    rows = ["| name | class | what it does | kind | source |", "|---|---|---|---|---|"]
    rows += [row(kind) for kind in posenc.encodings().values()]
    return "\n".join(rows)


def row(kind: type[Encoding]) -> str:
    summary = (kind.__doc__ or "").strip().splitlines()[0].rstrip(".")
    number = kind.paper.removeprefix("arXiv:")
    source = f"[{number}](https://arxiv.org/abs/{number})" if number != kind.paper else kind.paper
    return f"| `{kind.name}` | `{kind.__name__}` | {summary} | {kind.family} | {source} |"


def replaced(text: str, table: str) -> str:
    """README's text with the table between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> int:
    path = ROOT / "README.md"
    text = path.read_text()
    if BEGIN not in text or END not in text:
        print(f"{path.name} lacks the marks {BEGIN} and {END}")
        return 1
    fresh = replaced(text, catalogue())
    if "--check" not in sys.argv[1:]:
        path.write_text(fresh)
    elif fresh != text:
        print(f"{path.name} is stale: run `make generate`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
