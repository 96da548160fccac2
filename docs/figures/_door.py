"""A picture of the front page: a card wide, with few and large letters."""

from typing import Any

from figures._page import Page, Texts


class Door(Page):
    def __init__(self, theme: str, language: str, texts: Texts) -> None:
        super().__init__(theme, language, texts, height=2.1)
        self.figure.set_size_inches(3.0, 2.1)

    def bare(self, *place: Any, **options: Any) -> Any:
        """Axes without numbers, which nobody could read here."""
        axes = self.axes(*place, **options)
        axes.set(xticks=[], yticks=[])
        axes.minorticks_off()
        return axes

    def name(self, axes: Any, key: str, style: int, *place: float, **look: Any) -> None:
        """A line's name, in its colour."""
        x, y = place
        look |= {"fontsize": 10.5, "color": self.theme.lines[style]}
        self.write(axes, self.say(key), (x, y), **look)
