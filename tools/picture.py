"""A picture of the docs, out of the page of a real run.

    python tools/picture.py posenc-compare/report.html compare
    python tools/picture.py posenc-inspect/inspect.html inspect-rows "Length of each row"

Takes the first figure of the page, or the one of this heading, with the page's colours for light
and dark, and writes docs/images/NAME.svg.
"""

import re
import sys
from pathlib import Path

import posenc.report

ROOT = Path(__file__).parent.parent
# Letters of a figure are 9 to 10 units high; so they are as large as those of the text around it.
LARGER = 1.75
FONT = 'svg text { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif !important; }'


def standalone(page: str, style: str, heading: str = "") -> str:
    """The first figure below this heading as a file of its own."""
    _, _, below = page.partition(f"<h3>{heading}</h3>" if heading else "<body>")
    (figure,) = re.findall(r'<svg[^>]*class="figure".*?</svg>', below, flags=re.DOTALL)[:1]
    view = re.search(r'viewBox="([-\d. ]+)"', figure)
    colours = re.match(r".*?\n}\n@media.*?\n}\n", style, flags=re.DOTALL)
    if view is None or colours is None:
        raise SystemExit("the report has no figure, or the style sheet no colours")
    x, y, width, height = view[1].split()
    paper = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="var(--paper)"/>'
    opening, _, rest = figure.partition(">")
    opening = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    style = f"<style>\n{colours[0]}{FONT}\n</style>"
    wide, high = (f"{LARGER * float(side):g}" for side in (width, height))
    return f'{opening} width="{wide}" height="{high}">\n{style}\n{paper}{rest}\n'


def main() -> None:
    page, name, *heading = sys.argv[1:]
    style = Path(posenc.report.__path__[0], "report.css").read_text()
    target = ROOT / "docs" / "images" / f"{name}.svg"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(standalone(Path(page).read_text(), style, *heading))
    print(target.relative_to(ROOT))


if __name__ == "__main__":
    main()
