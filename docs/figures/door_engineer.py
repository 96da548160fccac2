import torch
from figures._door import Door
from matplotlib.figure import Figure

import posenc as pe
from posenc.analysis import measure

TEXTS = {
    "plain": ("RoPE", "RoPE"),
    "yarn": ("YaRN, 8 times longer", "YaRN，八倍长度"),
    "trained": ("trained length", "训练长度"),
}
# Pair and wavelength where a name stands.
PLACES = {"plain": (22, 700), "yarn": (24, 90_000)}
TRAINED, FACTOR = 4096, 8


def draw(theme: str, language: str) -> Figure:
    """Wavelengths of all pairs of a rotary encoding, before and after its context is extended."""
    page = Door(theme, language, TEXTS)
    axes = page.bare(yscale="log")
    rotary = {
        "plain": pe.Rotary(64),
        "yarn": pe.Rotary(64, scaling=pe.YaRN(FACTOR, TRAINED)),
    }
    for style, (name, encoding) in enumerate(rotary.items()):
        tokens = measure.wavelengths(measure.frequencies(encoding))[0]
        page.line(axes, torch.arange(32), tokens, style, linewidth=2.2)
        page.name(axes, name, style, *PLACES[name], ha="right" if style else "left")
    axes.axhline(TRAINED, color=page.theme.muted, linestyle="dashed", linewidth=1.0)
    page.write(axes, page.say("trained"), (0, TRAINED * 1.2), va="bottom", fontsize=10)
    axes.set_ylim(3, 1_500_000)
    return page.figure
