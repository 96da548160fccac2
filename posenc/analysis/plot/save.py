"""A figure as a file, the same bytes whenever it is drawn."""

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from posenc.atomic_files import replace_file, whole_file
from posenc.errors import SettingError

if TYPE_CHECKING:
    import matplotlib.figure

DPI = 160


def save(figure: "matplotlib.figure.Figure", path: str | Path) -> None:
    """Write a figure as .svg or .png, by the ending of the path.

    SVG has text as outlines, so that it looks the same wherever it is opened, and neither date nor
    random ids. Raises SettingError for another ending; OSError where nothing can be written, which
    leaves what stood there.
    """
    path = Path(path)
    if path.suffix == ".svg":
        replace_file(path, svg(figure).encode())
    elif path.suffix == ".png":
        with _quiet(), whole_file(path) as file:
            figure.savefig(file, format="png", dpi=DPI, facecolor=figure.get_facecolor())
    else:
        raise SettingError(f"save({str(path)!r}): figures are written as .svg or .png")


def svg(figure: "matplotlib.figure.Figure") -> str:
    """A figure as SVG, without date and tool."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    file = io.StringIO()
    empty = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    style = {"svg.hashsalt": "posenc", "svg.fonttype": "path"}
    canvas, dpi = figure.canvas, figure.dpi
    try:
        with matplotlib.rc_context(style), _quiet():
            # savefig would draw it twice, the first time for its layout alone.
            FigureCanvasSVG(figure).print_svg(file, metadata=empty)
    finally:
        figure.set_canvas(canvas)
        figure.dpi = dpi
    return file.getvalue()


def _quiet() -> "warnings.catch_warnings":
    """A name may hold letters that no font here has; they are drawn as boxes."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)
