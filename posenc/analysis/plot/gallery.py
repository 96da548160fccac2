"""Every figure of an encoding, each with what it takes to draw it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from posenc.analysis.decompose import decompose
from posenc.analysis.decomposition import Decomposition
from posenc.analysis.plot import predicates
from posenc.analysis.plot.angles import angles
from posenc.analysis.plot.bias import bias
from posenc.analysis.plot.circle import circle
from posenc.analysis.plot.curves import curves
from posenc.analysis.plot.decomposition import decomposition
from posenc.analysis.plot.heatmap import heatmap
from posenc.analysis.plot.helix import helix
from posenc.analysis.plot.inner_product import inner_product
from posenc.analysis.plot.labels import Language
from posenc.analysis.plot.mask import mask
from posenc.analysis.plot.scores import scores
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.subject import checked_length, note_of, terms_of
from posenc.analysis.plot.wavelengths import scaled, wavelengths
from posenc.analysis.probe_context import context_for, sizes_for
from posenc.encoding import Encoding
from posenc.encodings.rotary import Rotary
from posenc.lowering import embeds_only
from posenc.terms import Mask

if TYPE_CHECKING:
    import matplotlib.figure

TRAINED = 4096
Draw = Callable[..., "matplotlib.figure.Figure"]


@dataclass(frozen=True)
class Subject:
    """An encoding, and what a reader chose to see of it; None is what suits the figure."""

    encoding: Encoding
    length: int | None = None
    pair: int = 0
    head: int = 0

    def tokens(self, usual: int) -> int:
        """The length asked for, or the usual one as far as the encoding reaches."""
        if self.length is not None:
            return self.length
        reach = getattr(self.encoding, "max_length", None)
        return min(usual, reach) if isinstance(reach, int) and reach >= 2 else usual


def figures(
    encoding: Encoding, *, length: int | None = None, pair: int = 0, head: int = 0
) -> dict[str, Draw]:
    """Every figure that applies, by name, to be called with theme= and language=.

    Raises what the encoding raises where it lowers for four tokens.
    """
    terms, chosen = terms_of(encoding), Subject(encoding, length, pair, head)
    table = FIGURES.items()
    return {name: _ready(draw, chosen) for name, (asks, draw) in table if asks(encoding, terms)}


def gallery(
    encoding: Encoding,
    *,
    length: int | None = None,
    pair: int = 0,
    head: int = 0,
    theme: ThemeName = "light",
    language: Language = "en",
) -> "dict[str, matplotlib.figure.Figure]":
    """Every figure that applies to an encoding, drawn, by name.

    length is in tokens (None: what suits each figure); pair and head are those of the figures that
    show one. Raises what the figures raise.
    """
    drawn = figures(encoding, length=length, pair=pair, head=head)
    return {name: draw(theme=theme, language=language) for name, draw in drawn.items()}


def decomposed(encoding: Encoding, length: int) -> Decomposition:
    """`decompose` for random tokens and, where it embeds, random projections; drawn once for all.

    An encoding that is not causal only is taken without causality.
    """
    generator = torch.Generator().manual_seed(17)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    sizes, causal = sizes_for(encoding), encoding.tags.causal_only
    if embeds_only(encoding):
        x = draw(1, length, sizes.model_dim)
        width = encoding.embedded_width(sizes.model_dim)
        w_q, w_k = (draw(width, 1, sizes.head_dim) * width**-0.5 for _ in range(2))
        return decompose(x, encoding, w_q, w_k, causal=causal)
    q, k = (draw(1, sizes.heads, length, sizes.head_dim) for _ in range(2))
    context = context_for(encoding, length, batch=1)
    return decompose(q, k, encoding, causal=causal, context=context)


def _ready(draw: Any, chosen: Subject) -> Draw:
    return lambda **look: draw(chosen, **look)


def _wavelengths(of: Subject, **look: Any) -> Any:
    """A rotary beside what it is without its scaling, or under every scaling where it has none."""
    rotary, trained = of.encoding, of.length or TRAINED
    several = {type(rotary).__name__: rotary}
    if isinstance(rotary, Rotary) and rotary.scaling is None:
        several = scaled(rotary, trained)
    elif isinstance(rotary, Rotary):
        plain = Rotary(**(rotary.settings() | {"scaling": None}))
        several = {"RoPE": plain, type(rotary.scaling).__name__: rotary}
        trained = of.length or getattr(rotary.scaling, "original_length", TRAINED)
    return wavelengths(several, trained, **look)


def _decomposition(of: Subject, **look: Any) -> Any:
    split = decomposed(of.encoding, checked_length(of.tokens(16)))
    return decomposition(split, head=of.head, note=note_of(of.encoding), **look)


FIGURES: dict[str, tuple[predicates.Predicate, Any]] = {
    "heatmap": (predicates.tells, lambda of, **look: heatmap(of.encoding, of.tokens(64), **look)),
    "curves": (
        predicates.either(predicates.embeds, predicates.turns),
        lambda of, **look: curves(of.encoding, of.tokens(64), **look),
    ),
    "circle": (
        predicates.in_pairs,
        lambda of, **look: circle(of.encoding, of.pair, of.tokens(32), **look),
    ),
    "helix": (
        predicates.in_pairs,
        lambda of, **look: helix(of.encoding, of.pair, of.tokens(64), **look),
    ),
    "inner_product": (
        predicates.either(predicates.embeds, predicates.turns),
        lambda of, **look: inner_product(of.encoding, of.length, head=of.head, **look),
    ),
    "scores": (
        predicates.scores_differ,
        lambda of, **look: scores(of.encoding, of.tokens(48), of.head, **look),
    ),
    "bias": (predicates.adds, lambda of, **look: bias(of.encoding, of.tokens(48), **look)),
    "angles": (
        predicates.either(predicates.turns, predicates.is_sinusoidal),
        lambda of, **look: angles(of.encoding, of.tokens(64), of.head, **look),
    ),
    "wavelengths": (predicates.either(predicates.turns, predicates.is_sinusoidal), _wavelengths),
    "decomposition": (predicates.scored, _decomposition),
    "mask": (predicates.has(Mask), lambda of, **look: mask(of.encoding, of.tokens(32), **look)),
}
