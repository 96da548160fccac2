"""What figures refuse."""

import math

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import SettingError, ShapeError, UnsupportedError
from posenc.analysis import plot


@pytest.mark.usefixtures("unhooked")
def test_unknown_looks_are_named() -> None:
    with pytest.raises(SettingError, match=r"'blue'.*'light' and 'dark'"):
        plot.heatmap(pe.Sinusoidal(8), theme="blue")
    with pytest.raises(SettingError, match=r"'de'.*'en' and 'zh'"):
        plot.heatmap(pe.Sinusoidal(8), language="de")


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    "table", [torch.zeros(3), torch.zeros(0, 4), torch.zeros(3, 2, dtype=torch.complex64)]
)
def test_what_is_no_table_is_refused(table: Tensor) -> None:
    with pytest.raises(ShapeError, match="a figure of"):
        plot.heatmap(table)


def test_what_is_out_of_reach_is_refused() -> None:
    encoding = pe.Sinusoidal(8)
    for length in (-1, 1, 10**9):
        for figure in (plot.heatmap, plot.inner_product, plot.scores, plot.angles, plot.helix):
            with pytest.raises(SettingError, match=f"length={length}"):
                figure(encoding, length=length)
    with pytest.raises(SettingError, match="pair=4: there are 4"):
        plot.circle(encoding, pair=4)
    with pytest.raises(SettingError, match="dims=8"):
        plot.curves(encoding, dims=[8])
    with pytest.raises(SettingError, match="dims="):
        plot.curves(encoding, dims=[])
    with pytest.raises(SettingError, match="head=1"):
        plot.scores(encoding, head=1)
    with pytest.raises(SettingError, match="query=48"):
        plot.scores(encoding, query=48)
    with pytest.raises(SettingError, match="heads=12"):
        plot.bias(pe.ALiBi(12), heads=[12])
    with pytest.raises(SettingError, match="layers=0"):
        plot.mask(pe.SlidingWindow(3), layers=0)
    with pytest.raises(SettingError, match="trained=0"):
        plot.wavelengths({"rope": pe.Rotary(8)}, trained=0)
    with pytest.raises(SettingError, match="0 encodings"):
        plot.wavelengths({})


def test_what_says_nothing_of_it_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="adds nothing"):
        plot.bias(pe.Rotary(8))
    with pytest.raises(UnsupportedError, match="no vector"):
        plot.circle(pe.ALiBi(4))
    with pytest.raises(UnsupportedError, match="turns no pairs"):
        plot.angles(pe.ALiBi(4))
    with pytest.raises(UnsupportedError):
        plot.wavelengths({"alibi": pe.ALiBi(4)})


@pytest.mark.parametrize("vmax", [0.0, -1.0, math.nan, math.inf])
def test_colours_need_a_limit_above_zero(vmax: float) -> None:
    with pytest.raises(SettingError, match="above 0"):
        plot.heatmap(torch.ones(2, 2), vmax=vmax)
