"""Two themes, in colours that remain apart for colour-blind eyes and on paper."""

from dataclasses import dataclass
from typing import Any, Literal

from posenc.errors import SettingError

ThemeName = Literal["light", "dark"]

# Colour alone is never the only difference between two lines.
DASHES: tuple[Any, ...] = (
    "solid",
    (0, (5, 2)),
    (0, (1.5, 1.5)),
    (0, (7, 2, 1.5, 2)),
    (0, (3, 1.5)),
    (0, (9, 1.5)),
    (0, (1, 3)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")


@dataclass(frozen=True)
class Theme:
    """Colours of a figure.

    lines       one after another, at least 3 : 1 against the paper
    diverging   from the least through 0, which is nearly the paper, to the largest
    sequential  from the first to the last, ever darker or ever lighter
    cyclic      the name of matplotlib's colours for angles
    hidden      where there is nothing to show
    """

    paper: str
    ink: str
    muted: str
    grid: str
    hidden: str
    lines: tuple[str, ...]
    diverging: tuple[str, ...]
    sequential: tuple[str, ...]
    cyclic: str


LIGHT = Theme(
    paper="#ffffff",
    ink="#1b1d21",
    muted="#5a606a",
    grid="#dfe2e6",
    hidden="#e9ebee",
    # After Okabe and Ito 2008, darkened where white paper would swallow them.
    lines=("#0072b2", "#d55e00", "#009e73", "#a8437f", "#9a6a00", "#2294cc", "#1b1d21"),
    diverging=("#08407e", "#3f8fc5", "#b5d5ea", "#fafafa", "#f6c49c", "#d9702a", "#7f2c04"),
    sequential=("#f2b04a", "#d8576b", "#8b2c8f", "#1e1450"),
    cyclic="twilight_shifted",
)
DARK = Theme(
    paper="#131416",
    ink="#eceef1",
    muted="#a3a9b3",
    grid="#33363c",
    hidden="#26282c",
    lines=("#56b4e9", "#f0883e", "#8fd694", "#e29ac4", "#e9c23b", "#9db4ff", "#eceef1"),
    diverging=("#a9dcff", "#4a9bd6", "#1f4b72", "#17181b", "#703715", "#dd7a33", "#ffd0a3"),
    sequential=("#6d4fc4", "#c9549c", "#f58a5b", "#fdf0a0"),
    cyclic="twilight",
)
THEMES = {"light": LIGHT, "dark": DARK}


def theme_of(name: str) -> Theme:
    """The theme called `name`; SettingError where there is none."""
    if name not in THEMES:
        raise SettingError(f"theme={name!r}: figures are drawn in 'light' and 'dark'")
    return THEMES[name]
