"""The table that an encoding is: one row for each position, or each distance."""

from typing import TYPE_CHECKING

from torch import Tensor

from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.sheet import Sheet
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.subject import table_of
from posenc.encoding import Encoding

if TYPE_CHECKING:
    import matplotlib.figure


def heatmap(
    encoding_or_table: Encoding | Tensor,
    length: int | None = None,
    *,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "matplotlib.figure.Figure":
    """Position x dimension of an absolute encoding or a table (t, c), as colours.

    Of any other encoding it is `measure.distance_table`: row n is what attention is told of a key
    n tokens back. length None: 64 rows of an encoding, all of a table. Raises what `table_of` and
    the encoding raise.
    """
    table = table_of(encoding_or_table, length)
    sheet = Sheet(theme, language, table.title, note=table.note, height=4.2)
    axes = sheet.axes()
    sheet.heat(axes, table.values, bar="value")
    sheet.label(axes, table.columns, table.rows)
    return sheet.figure
