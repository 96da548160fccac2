"""What an encoding says, as figures: light and dark, in English and in Chinese.

    from posenc.analysis import plot

    plot.save(plot.heatmap(pe.Sinusoidal(128), theme="dark"), "sinusoidal.svg")

Every function takes an encoding, a user's own too, or data, and returns a matplotlib Figure (pip
install "posenc[plot]"); pyplot is not touched. The numbers are those of `posenc.analysis.measure`
and `posenc.decompose`. `figures` and `gallery` know what applies to an encoding.
"""

from posenc.analysis.plot.angles import angles as angles
from posenc.analysis.plot.bias import bias as bias
from posenc.analysis.plot.circle import circle as circle
from posenc.analysis.plot.curves import curves as curves
from posenc.analysis.plot.decomposition import decomposition as decomposition
from posenc.analysis.plot.gallery import FIGURES as FIGURES
from posenc.analysis.plot.gallery import Draw as Draw
from posenc.analysis.plot.gallery import figures as figures
from posenc.analysis.plot.gallery import gallery as gallery
from posenc.analysis.plot.heatmap import heatmap as heatmap
from posenc.analysis.plot.helix import helix as helix
from posenc.analysis.plot.inner_product import inner_product as inner_product
from posenc.analysis.plot.labels import Language as Language
from posenc.analysis.plot.mask import mask as mask
from posenc.analysis.plot.save import save as save
from posenc.analysis.plot.save import svg as svg
from posenc.analysis.plot.scores import scores as scores
from posenc.analysis.plot.style import ThemeName as ThemeName
from posenc.analysis.plot.wavelengths import scaled as scaled
from posenc.analysis.plot.wavelengths import wavelengths as wavelengths

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
