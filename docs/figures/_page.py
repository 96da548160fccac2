"""A lesson's figure on its way: the library's canvas, with the lesson's own words."""

from posenc.analysis.plot.canvas import Canvas
from posenc.analysis.plot.labels import Texts as Texts


class Page(Canvas):
    """A canvas without a title, for the lesson's text says what it is."""

    def __init__(self, theme: str, language: str, texts: Texts, height: float) -> None:
        super().__init__(theme, language, texts=texts, height=height)
