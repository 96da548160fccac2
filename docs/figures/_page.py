"""A lesson's figure on its way: the library's canvas, with the lesson's own words."""

from matplotlib.figure import Figure

from posenc.analysis.plot.canvas import WIDTH, Canvas
from posenc.analysis.plot.fonts import families
from posenc.analysis.plot.labels import Words
from posenc.analysis.plot.style import theme_of

# What a figure says, by key: in English and in Chinese.
Texts = dict[str, tuple[str, str]]


class LessonWords(Words):
    """The words of one lesson in one language."""

    def __init__(self, language: str, texts: Texts) -> None:
        super().__init__(language)
        self.texts = texts

    def __call__(self, key: str, **values: object) -> str:
        english, chinese = self.texts[key]
        return (chinese if self.language == "zh" else english).format(**values)


class Page(Canvas):
    """A canvas without a title, for the lesson's text says what it is."""

    def __init__(self, theme: str, language: str, texts: Texts, height: float) -> None:
        self.theme = theme_of(theme)
        self.say: Words = LessonWords(language, texts)
        self.families = families()
        self.figure = Figure((WIDTH, height), facecolor=self.theme.paper, layout="constrained")
