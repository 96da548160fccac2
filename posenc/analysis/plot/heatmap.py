"""The table that an encoding is: one row for each position, or each distance."""

import math
from typing import TYPE_CHECKING

from torch import Tensor

from posenc.analysis.plot.canvas import Canvas, balanced
from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.subject import table_of
from posenc.encoding import Encoding
from posenc.errors import SettingError

if TYPE_CHECKING:
    import matplotlib.figure

# The shares of numbers that colours are for in any case, and from which multiple of what they stay
# within the others are outliers. The largest of a million normal numbers is less than that.
KEPT, OUTLYING = (0.99, 0.95), 3.0


def heatmap(
    encoding_or_table: Encoding | Tensor,
    length: int | None = None,
    *,
    vmax: float | None = None,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "matplotlib.figure.Figure":
    """Position x dimension of an absolute encoding or a table (t, c), as colours.

    Of any other encoding it is `measure.distance_table`: row n is what attention is told of a key
    n tokens back. length None: 64 rows of an encoding, all of a table. Colours reach from -vmax to
    vmax; None is the largest number, or what 99 % (95 %) of the numbers stay within where that is
    less than a third of it, and would leave the page white. The bar says how many lie beyond.
    Raises SettingError for a vmax that is not above 0, and what `table_of` and the encoding raise.

        plot.heatmap(pe.Sinusoidal(128), vmax=0.5)
    """
    table = table_of(encoding_or_table, length)
    limit = robust_limit(table.values) if vmax is None else float(vmax)
    if not limit > 0:
        raise SettingError(f"heatmap(vmax={vmax}): colours need a largest number above 0")
    sizes = table.values[table.values.isfinite()].abs()
    beyond = 100 * float((sizes > limit).double().mean()) if len(sizes) else 0.0
    bar = ("value_clipped", {"share": f"{beyond:.2g}"}) if beyond else ("value", {})
    canvas = Canvas(theme, language, table.title, note=table.note, height=4.2)
    axes = canvas.axes()
    canvas.heat(axes, table.values, limits=(-limit, limit), bar=bar[0], words=bar[1])
    canvas.label(axes, table.columns, table.rows)
    return canvas.figure


def robust_limit(values: Tensor) -> float:
    """The largest number, or what nearly all stay within where that is a third of it or less."""
    limit = balanced(values)[1]
    sizes = values[values.isfinite()].abs().flatten()
    for share in KEPT if len(sizes) else ():
        usual = float(sizes.kthvalue(math.ceil(share * len(sizes))).values)
        limit = usual if 0 < OUTLYING * usual < limit else limit
    return limit
