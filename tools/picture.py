"""The picture of README.md, out of the report of a real run.

    python tools/picture.py posenc-compare

Takes the first figure of report.html, with the page's colours for light and dark, and writes
docs/images/compare.svg.
"""

import re
import sys
from pathlib import Path

import posenc.report

ROOT = Path(__file__).parent.parent
FONT = 'svg text { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif !important; }'


def standalone(page: str, style: str) -> str:
    """The first figure of a report as a file of its own."""
    (figure,) = re.findall(r'<svg[^>]*class="figure".*?</svg>', page, flags=re.DOTALL)[:1]
    view = re.search(r'viewBox="([-\d. ]+)"', figure)
    colours = re.match(r".*?\n}\n@media.*?\n}\n", style, flags=re.DOTALL)
    if view is None or colours is None:
        raise SystemExit("the report has no figure, or the style sheet no colours")
    x, y, width, height = view[1].split()
    paper = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="var(--paper)"/>'
    opening, _, rest = figure.partition(">")
    opening = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    style = f"<style>\n{colours[0]}{FONT}\n</style>"
    return f'{opening} width="{width}" height="{height}">\n{style}\n{paper}{rest}\n'


def main() -> None:
    page = Path(sys.argv[1], "report.html").read_text()
    style = Path(posenc.report.__path__[0], "report.css").read_text()
    target = ROOT / "docs" / "images" / "compare.svg"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(standalone(page, style))
    print(target.relative_to(ROOT))


if __name__ == "__main__":
    main()
