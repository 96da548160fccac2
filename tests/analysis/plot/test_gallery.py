"""Every encoding gets the figures that say something of it, a stranger's too."""

import matplotlib
import pytest
import torch
from drawn import FIRST, line_of
from torch import Tensor

import posenc as pe
from posenc import Encoding
from posenc.analysis import measure, plot
from posenc.analysis.plot.style import DARK
from posenc.terms import DistanceTable, Term


class Bumps(Encoding):
    """A stranger's: it only embeds, and derives from nothing else of posenc."""

    name, family = "bumps", "absolute"

    def __init__(self) -> None:
        super().__init__()
        self.model_dim = 4

    def embed(self, x: Tensor, positions: object, *, layer: int = 0) -> Tensor:
        assert isinstance(positions, pe.Positions)
        bumps = torch.arange(1, 5) * (positions.queries.position.double() % 3).view(1, -1, 1)
        return x + bumps.to(x.dtype)


class Parity(Encoding):
    """A stranger's: keys at two distances of four score one more. Its repr fails."""

    name, family = "parity", "bias"

    def __init__(self, heads: int = 2, forgotten: int = 0) -> None:
        super().__init__()
        self.heads = heads

    def lower(self, positions: pe.Positions, *given: object, **named: object) -> tuple[Term, ...]:
        far = 300
        distance = torch.arange(-far, far + 1)
        values = (distance // 2 % 2).double().expand(2, -1)
        return (DistanceTable(values, zero=far),)


@pytest.mark.parametrize("name", FIRST)
def test_what_applies_is_drawn(name: str) -> None:
    drawn = plot.gallery(FIRST[name], language="zh", theme="dark")
    assert drawn
    for figure in drawn.values():
        assert figure.axes
        assert figure.get_facecolor() == matplotlib.colors.to_rgba(DARK.paper)
    assert set(drawn) <= set(plot.FIGURES)


@pytest.mark.parametrize("name", FIRST)
def test_every_example_has_figures(name: str) -> None:
    for example in pe.encodings()[name].examples():
        assert plot.figures(example)


def test_each_kind_gets_its_figures() -> None:
    assert list(plot.figures(FIRST["sinusoidal"])) == [
        "heatmap", "curves", "circle", "helix", "inner_product", "scores", "angles",
        "wavelengths", "decomposition",
    ]  # fmt: skip
    assert list(plot.figures(FIRST["alibi"])) == ["heatmap", "scores", "bias", "decomposition"]
    assert list(plot.figures(FIRST["window"])) == ["mask"]
    assert list(plot.figures(FIRST["none"])) == ["decomposition"]
    assert "circle" not in plot.figures(FIRST["ordinal"])
    assert "circle" not in plot.figures(FIRST["rerope"])
    assert "mask" in plot.figures(FIRST["lm_infinite"])


@pytest.mark.parametrize(
    "encoding", [e for e in pe.RoPEPlusPlus.examples() if e.scaling is not None], ids=repr
)
def test_a_kind_of_rotary_stands_beside_itself_without_its_scaling(
    encoding: pe.RoPEPlusPlus,
) -> None:
    (axes,) = plot.figures(encoding)["wavelengths"]().axes
    shown = {line.get_label(): line for line in axes.lines}
    plain = pe.Rotary(encoding.dim, encoding.base, encoding.layout)
    waves = measure.wavelengths(measure.frequencies(plain))[0]
    assert shown["RoPE"].get_ydata().tolist() == pytest.approx(waves.tolist())
    assert type(encoding.scaling).__name__ in shown


def test_a_gallery_stays_within_a_short_table() -> None:
    encoding = pe.Learned(8, max_length=5)
    for figure in plot.gallery(encoding).values():
        assert figure.axes
    with pytest.raises(pe.PositionsError):
        plot.gallery(encoding, length=6)


@pytest.mark.parametrize("kind", [Bumps, Parity])
def test_a_strangers_class_is_drawn(kind: type[Encoding]) -> None:
    for figure in plot.gallery(kind()).values():
        assert plot.svg(figure).startswith("<?xml")


def test_a_strangers_numbers_are_its_own() -> None:
    (curve, buckets) = plot.bias(Parity(), 4).axes
    assert line_of(curve).tolist() == [0, 1, 1, 0, 0, 1, 1]
    assert line_of(buckets).tolist() == [0, 1, 1, 0, 0, 1, 1]
