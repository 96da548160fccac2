"""What an encoding says, as figures: light and dark, in English and in Chinese.

    from posenc.analysis import plot

    plot.save(plot.heatmap(pe.Sinusoidal(128), theme="dark"), "sinusoidal.svg")

Every function takes an encoding, a user's own too, or data, and returns a matplotlib Figure (the
extra "plot"); pyplot is not touched. The numbers are those of `posenc.analysis.measure` and
`posenc.decompose`. `figures` and `gallery` know what applies to an encoding.
"""

from posenc.analysis.plot.gallery import FIGURES, Draw, figures, gallery
from posenc.analysis.plot.pairs import circle, helix
from posenc.analysis.plot.rotations import angles, scaled, wavelengths
from posenc.analysis.plot.save import save, svg
from posenc.analysis.plot.scores import bias, decomposition, inner_product, mask, scores
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.tables import curves, heatmap
from posenc.words import Language

__all__ = [
    "FIGURES",
    "Draw",
    "Language",
    "ThemeName",
    "angles",
    "bias",
    "circle",
    "curves",
    "decomposition",
    "figures",
    "gallery",
    "heatmap",
    "helix",
    "inner_product",
    "mask",
    "save",
    "scaled",
    "scores",
    "svg",
    "wavelengths",
]
