"""Every figure of an encoding: which ones say something of it, and what they take to be drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posenc.analysis import measure
from posenc.analysis.decompose import decompose
from posenc.analysis.decomposition import Decomposition
from posenc.analysis.plot.canvas import Figure, checked_length, note_of
from posenc.analysis.plot.pairs import circle, helix
from posenc.analysis.plot.rotations import angles, scaled, wavelengths
from posenc.analysis.plot.scores import bias, decomposition, inner_product, mask, scores
from posenc.analysis.plot.style import ThemeName
from posenc.analysis.plot.tables import curves, heatmap
from posenc.analysis.probe_context import context_for, context_of_one_token, device_of, sizes_for
from posenc.encoding import Encoding
from posenc.encodings.rotary import Rotary
from posenc.errors import UnsupportedError
from posenc.lowering import embeds_only, lower
from posenc.positions import Positions
from posenc.terms import Mask, Rotate, Term
from posenc.words import Language

TRAINED = 4096
Draw = Callable[..., Figure]


@dataclass(frozen=True)
class Subject:
    """An encoding with its terms, and what a reader chose to see; None is what suits the figure."""

    encoding: Encoding
    terms: tuple[Term, ...]
    length: int | None = None
    pair: int = 0
    head: int = 0

    def tokens(self, usual: int) -> int:
        """The length asked for, or the usual one as far as the encoding reaches."""
        if self.length is not None:
            return self.length
        reach = getattr(self.encoding, "max_length", None)
        return min(usual, reach) if isinstance(reach, int) and reach >= 2 else usual

    @property
    def embeds(self) -> bool:
        return embeds_only(self.encoding)

    @property
    def scores(self) -> bool:
        """Whether it does more than hide."""
        return self.embeds or any(not isinstance(term, Mask) for term in self.terms)

    def tells(self, measured_by: Callable[[Encoding, int], object]) -> bool:
        """Whether a measure finds something in it."""
        try:
            return measured_by(self.encoding, 1) is not None
        except (UnsupportedError, AttributeError):
            # The repr of an encoding that keeps no settings fails within the error's own words.
            return False


def figures(
    encoding: Encoding, *, length: int | None = None, pair: int = 0, head: int = 0
) -> dict[str, Draw]:
    """Every figure that applies, by name, to be called with theme= and language=.

    Raises what the encoding raises where it lowers for four tokens.
    """
    terms: tuple[Term, ...] = ()
    if not embeds_only(encoding):
        positions = Positions.build(4, causal=True, device=device_of(encoding))
        context = context_of_one_token(encoding, positions.k_len)
        terms = lower(encoding, positions, context=context, dtype=torch.float64).terms
    subject = Subject(encoding, terms, length, pair, head)
    applying = {name: kind for name, kind in FIGURES.items() if kind.applies(subject)}
    return {
        name: lambda kind=kind, **look: kind.draw(*kind.inputs(subject), **look)
        for name, kind in applying.items()
    }


def gallery(
    encoding: Encoding,
    *,
    length: int | None = None,
    pair: int = 0,
    head: int = 0,
    theme: ThemeName = "light",
    language: Language = "en",
) -> dict[str, Figure]:
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


def _in_training(of: Subject) -> tuple[dict[str, Encoding], int]:
    """A rotary beside what it is without its scaling, or under every scaling where it has none."""
    rotary, trained = of.encoding, of.length or TRAINED
    if not isinstance(rotary, Rotary):
        return {type(rotary).__name__: rotary}, trained
    if rotary.scaling is None:
        return scaled(rotary, trained), trained
    plain = type(rotary)(**(rotary.settings() | {"scaling": None}))
    trained = of.length or getattr(rotary.scaling, "original_length", TRAINED)
    return {"RoPE": plain, type(rotary.scaling).__name__: rotary}, trained


def _decomposition(of: Subject, **look: Any) -> Figure:
    split = decomposed(of.encoding, checked_length(of.tokens(16)))
    return decomposition(split, head=of.head, note=note_of(of.encoding), **look)


@dataclass(frozen=True)
class Kind:
    """A kind of figure: whether it shows something of a subject, what draws it, and of what."""

    applies: Callable[[Subject], bool]
    draw: Draw
    inputs: Callable[[Subject], tuple[Any, ...]]


def _told(of: Subject) -> bool:
    return of.embeds or of.tells(measure.distance_table)


def _in_waves(of: Subject) -> bool:
    return of.embeds or of.tells(measure.relative_angles)


def _turns(of: Subject) -> bool:
    # A sum of several frequencies has no wavelength.
    mixed = any(isinstance(term, Rotate) and term.bounded for term in of.terms)
    return not mixed and of.tells(measure.relative_angles)


def _in_pairs(of: Subject) -> bool:
    return of.tells(measure.pair_points)


FIGURES = {
    "heatmap": Kind(_told, heatmap, lambda of: (of.encoding, of.tokens(64))),
    "curves": Kind(_in_waves, curves, lambda of: (of.encoding, of.tokens(64))),
    "circle": Kind(_in_pairs, circle, lambda of: (of.encoding, of.pair, of.tokens(32), of.head)),
    "helix": Kind(_in_pairs, helix, lambda of: (of.encoding, of.pair, of.tokens(64), of.head)),
    "inner_product": Kind(
        _in_waves, inner_product, lambda of: (of.encoding, of.length, True, of.head)
    ),
    "scores": Kind(lambda of: of.scores, scores, lambda of: (of.encoding, of.tokens(48), of.head)),
    "bias": Kind(
        lambda of: of.tells(measure.position_bias), bias, lambda of: (of.encoding, of.tokens(48))
    ),
    "angles": Kind(_turns, angles, lambda of: (of.encoding, of.tokens(64), of.head)),
    "wavelengths": Kind(_turns, wavelengths, _in_training),
    "decomposition": Kind(lambda of: not of.terms or of.scores, _decomposition, lambda of: (of,)),
    "mask": Kind(
        lambda of: any(isinstance(term, Mask) for term in of.terms),
        mask,
        lambda of: (of.encoding, of.tokens(32)),
    ),
}
