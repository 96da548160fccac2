"""The Chinese letters of the labels, which matplotlib's own font lacks."""

from pathlib import Path

FILE = Path(__file__).parent / "posenc-han.otf"
NAME = "Posenc Han"


def families() -> list[str]:
    """Font families in the order in which letters are looked for; Chinese ones are ready to use."""
    from matplotlib.font_manager import fontManager

    if all(font.name != NAME for font in fontManager.ttflist):
        fontManager.addfont(FILE)
    return ["DejaVu Sans", NAME]
