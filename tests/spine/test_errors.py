"""Bad input gets an error that repeats the call and says what to do."""

import inspect
from collections.abc import Callable

import pytest
import torch

import posenc as pe
from posenc import (
    Learned,
    PosencError,
    Positions,
    PositionsError,
    SettingError,
    UnknownNameError,
    errors,
    make,
)

# Types are checked by the test-time hook as well; here the library's own words are read.
pytestmark = pytest.mark.usefixtures("unhooked")

NAN = float("nan")

SETTINGS: dict[str, Callable[[], object]] = {
    r"Rotary\(dim=7\): dimensions turn in pairs, so dim must be even": lambda: pe.Rotary(7),
    r"Rotary\(dim=0\)": lambda: pe.Rotary(0),
    r"Rotary\(dim=-4\)": lambda: pe.Rotary(-4),
    r"Rotary\(rotary_dim=3\).*even": lambda: pe.Rotary(8, rotary_dim=3),
    r"Rotary\(rotary_dim=0\)": lambda: pe.Rotary(8, rotary_dim=0),
    r"Rotary\(dim=8, rotary_dim=10\): at most dim can turn": lambda: pe.Rotary(8, rotary_dim=10),
    r"Rotary\(base=0\): base must be greater than 0": lambda: pe.Rotary(8, base=0),
    r"Rotary\(base=nan\)": lambda: pe.Rotary(8, base=NAN),
    r"Rotary\(layout='neox'\): layout is 'half' or 'interleaved'": lambda: pe.Rotary(
        8, layout="neox"
    ),
    r"Sinusoidal\(dim=0.*": lambda: pe.Sinusoidal(0),
    r"Sinusoidal\(base=-1\)": lambda: pe.Sinusoidal(8, base=-1),
    r"Sinusoidal\(layout='paper'\): layout is 'interleaved' or 'half'": lambda: pe.Sinusoidal(
        8, layout="paper"
    ),
    r"Sinusoidal\(merge='sum'\): merge is 'add', .*'hadamard' or 'concat'": lambda: pe.Sinusoidal(
        8, merge="sum"
    ),
    r"Learned\(max_length=0\)": lambda: Learned(8, 0),
    r"Learned\(dim=0\)": lambda: Learned(0, 8),
    r"Learned\(merge='cat'\)": lambda: Learned(8, 8, merge="cat"),
    r"Learned\(max_length=8, padding_idx=8\): rows are 0 to 7": lambda: Learned(
        8, 8, padding_idx=8
    ),
    r"Learned\(max_length=8, padding_idx=-1\)": lambda: Learned(8, 8, padding_idx=-1),
    r"ALiBi\(heads=0\): heads must be a whole number \(int\), 1 or more": lambda: pe.ALiBi(0),
    r"ALiBi\(slopes='bloom'\): slopes are 'press' or 'geometric'": lambda: pe.ALiBi(
        8, slopes="bloom"
    ),
    r"T5Bias\(heads=-1\)": lambda: pe.T5Bias(-1),
    r"T5Bias\(buckets=7\): an even number >= 2": lambda: pe.T5Bias(4, buckets=7),
    r"T5Bias\(buckets=2\): an even number >= 4": lambda: pe.T5Bias(4, 2, bidirectional=True),
    r"T5Bias\(buckets=32, max_distance=16\).*greater than 16": lambda: pe.T5Bias(
        4, max_distance=16
    ),
    r"Shaw\(clip=0\)": lambda: pe.Shaw(8, clip=0),
    r"Shaw\(dim=0\)": lambda: pe.Shaw(0),
    r"SlidingWindow\(width=0\)": lambda: pe.SlidingWindow(0),
    r"Sinks\(count=-1\)": lambda: pe.Sinks(-1),
}


@pytest.mark.parametrize("said", SETTINGS)
def test_settings_that_have_no_meaning(said: str) -> None:
    with pytest.raises(SettingError, match=said):
        SETTINGS[said]()


X = torch.zeros(1, 4, 8)

EMBEDDING: dict[str, tuple[type[PosencError], Callable[[], object]]] = {
    "smallest id is -1: ids must be >= 0": (
        PositionsError,
        lambda: Learned(8, 4).embed(X, Positions.build(ids=torch.tensor([0, -1, 2, 3]))),
    ),
    r"Learned\(max_length=4\) got positions up to 9: construct it with max_length >= 10": (
        PositionsError,
        lambda: Learned(8, 4).embed(X, Positions.build(ids=torch.tensor([0, 1, 9, 3]))),
    ),
    r"Learned\(max_length=3\) got positions up to 3": (
        PositionsError,
        lambda: Learned(8, 3).embed(X, None),
    ),
    r"Learned needs to know how far.*a bare tensor.*Positions\.build\(ids=\.\.\.\)": (
        PositionsError,
        lambda: Learned(8, 4).embed(X, torch.arange(4)),
    ),
    "one row per whole position: give int64": (
        PositionsError,
        lambda: Learned(8, 4).embed(X, Positions.build(ids=torch.arange(4) / 2)),
    ),
    r"Learned reads one coordinate per token.*\(1, 4, 2\)": (
        PositionsError,
        lambda: Learned(8, 4).embed(X, Positions.build(ids=torch.zeros(1, 4, 2).long())),
    ),
    r"Sinusoidal reads one coordinate per token.*\(1, 4, 2\).*give one axis": (
        PositionsError,
        lambda: pe.Sinusoidal(8).embed(X, Positions.build(ids=torch.zeros(1, 4, 2).long())),
    ),
    r"Sinusoidal\(dim=6\)\.embed got x of shape \(1, 4, 8\): \(b, t, 6\) is needed": (
        SettingError,
        lambda: pe.Sinusoidal(6).embed(X, None),
    ),
    r"Learned\(dim=8\)\.embed got x of shape \(4, 8\): \(b, t, 8\)": (
        SettingError,
        lambda: Learned(8, 4).embed(X[0], None),
    ),
    r"Sinusoidal\.embed got x of torch\.int64: embeddings are needed": (
        SettingError,
        lambda: pe.Sinusoidal(8).embed(X.long(), None),
    ),
    "4 queries and 4 keys, but positions for 5 queries": (
        PositionsError,
        lambda: pe.Sinusoidal(8).embed(X, torch.arange(5)),
    ),
    "4 queries and 7 keys, but positions for 3 queries": (
        PositionsError,
        lambda: pe.Sinusoidal(8).embed(X, Positions.build(3, 7)),
    ),
}


@pytest.mark.parametrize("said", EMBEDDING)
def test_positions_that_an_embedding_cannot_read(said: str) -> None:
    error, call = EMBEDDING[said]
    with pytest.raises(error, match=said):
        call()


def test_several_axes_say_which_encoding_reads_one() -> None:
    q = torch.zeros(1, 2, 4, 8)
    positions = Positions.build(ids=torch.zeros(1, 4, 2).long())
    with pytest.raises(PositionsError, match=r"Rotary reads one coordinate.*give one axis"):
        pe.attend(q, q, q, pe.Rotary(8), positions=positions)
    with pytest.raises(PositionsError, match=r"a distance reads one coordinate"):
        pe.attend(q, q, q, pe.ALiBi(2), positions=positions)


SIZES = {"model_dim": 32, "heads": 4}


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("rotery", "'rotary'"),
        ("Alibii", "'alibi'"),
        ("sinusoidl", "'sinusoidal'"),
        ("lerned", "'learned'"),
    ],
)
def test_an_unknown_name_gets_the_nearest_ones(name: str, near: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        make(name, **SIZES)
    said = str(caught.value)
    assert said.startswith(f"no encoding is called {name!r}: did you mean {near}")
    assert said.endswith("known are " + ", ".join(pe.encodings()))


def test_a_name_like_no_other_gets_the_list() -> None:
    with pytest.raises(UnknownNameError, match=r"called 'qqqq': known are alibi, .*, none, "):
        make("qqqq", **SIZES)


NAMES: dict[str, tuple[type[PosencError], Callable[[], object]]] = {
    r"no setting of Rotary is called 'bose': did you mean 'base'": (
        UnknownNameError,
        lambda: make("rotary", **SIZES, bose=3.0),
    ),
    r"encoding 'nowhere\.at_all:Thing' cannot be imported.*give package\.module:Class": (
        SettingError,
        lambda: make("nowhere.at_all:Thing", **SIZES),
    ),
    r"encoding 'posenc:Rotery' cannot be imported.*no attribute 'Rotery'": (
        SettingError,
        lambda: make("posenc:Rotery", **SIZES),
    ),
    r"posenc:attend is <function attend.*a class derived from posenc\.Encoding": (
        SettingError,
        lambda: make("posenc:attend", **SIZES),
    ),
    r"make\('rotary', model_dim=30, heads=4\).*not a multiple of heads; give head_dim": (
        SettingError,
        lambda: make("rotary", model_dim=30, heads=4),
    ),
    r"Rotary\(dim=7\).*even": (SettingError, lambda: make("rotary", model_dim=28, heads=4)),
}


@pytest.mark.parametrize("said", NAMES)
def test_what_make_cannot_make(said: str) -> None:
    error, call = NAMES[said]
    with pytest.raises(error, match=said):
        call()


def test_one_base_class_catches_all_of_them() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    kinds = [kind for kind in kinds if issubclass(kind, Exception)]
    assert len(kinds) >= 9
    for kind in kinds:
        assert issubclass(kind, PosencError)
        assert kind.__name__ in (errors.__doc__ or "")
        assert getattr(pe, kind.__name__) is kind
    # So that code which expects Python's own errors keeps working.
    for kind, builtin in {
        pe.SettingError: ValueError,
        pe.ShapeError: ValueError,
        pe.PositionsError: ValueError,
        pe.CacheError: ValueError,
        pe.ConversionError: ValueError,
        pe.UnsupportedError: NotImplementedError,
        pe.UnknownNameError: LookupError,
        pe.CheckError: AssertionError,
    }.items():
        assert issubclass(kind, builtin)
