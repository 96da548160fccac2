"""Every public constructor refuses numbers that its formula cannot use, where they are given."""

import inspect
import math
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch

import posenc as pe
from posenc.mask_rules import Chunk, Prefix, Sink, Window

# What users meet without the hook that checks types in tests.
pytestmark = [pytest.mark.usefixtures("unhooked"), pytest.mark.unchecked]

Settings = dict[str, Any]
WIDE: Settings = {"vocab_size": 10, "dim": 16, "heads": 4, "kv_heads": 2, "dropout": 0.1}
YARN: Settings = {"factor": 4.0, "original_length": 64}
OTHERS: list[tuple[Callable[..., object], Settings]] = [
    (pe.Linear, {"factor": 4.0}),
    (pe.NTK, {"factor": 4.0}),
    (pe.DynamicNTK, YARN),
    (pe.YaRN, {**YARN, "mscale": 1.0, "mscale_all_dim": 0.7}),
    (pe.DynamicYaRN, {"original_length": 64, "attention_factor": 1.2}),
    (pe.LongRoPE, {"short": (1.0, 1.0), "long": (1.0, 2.0), **YARN}),
    (pe.Llama3, {"low_freq_factor": 1.0, "high_freq_factor": 4.0, **YARN}),
    (pe.Proportional, {"fraction": 0.5}),
    (pe.ALiBi, {"heads": 2, "slopes": (0.5, 0.25)}),
    (pe.AxialRotary, {"dim": 4, "frequencies": (1.0, 0.1)}),
    (pe.Shaw, {"dim": 8, "future": 2}),
    (pe.CirculantSTRING, {"dim": 8, "heads": 2, "block": 4}),
    (pe.RoPEPlusPlus, {"dim": 8, "heads": 4, "imaginary": (1, 2)}),
    (pe.Cache, {"length": 8}),
    (pe.LatentCache, {"length": 8}),
    (pe.StaticCache, {"length": 8}),
    (pe.RollingCache, {"window": 8, "length": 16}),
    (pe.RollingCache, {"chunk": 8}),
    (Window, {"width": 4}),
    (Chunk, {"width": 4}),
    (Sink, {"count": 4}),
    (Prefix, {"count": 4}),
    (pe.Attention, {name: WIDE[name] for name in WIDE if name != "vocab_size"}),
    (pe.TransformerEmbedding, {"vocab_size": 10, "dim": 16, "max_length": 8}),
    (pe.Transformer, {**WIDE, "depth": 1, "max_length": 8}),
    (pe.LatentAttention, {"dim": 16, "heads": 2, "query_latent_dim": 6, "scale": 0.5}),
    (pe.EnhancedMaskDecoder, {"dim": 16, "heads": 4, "max_length": 8}),
    (pe.FusedHeads, {"heads": 4, "kv_heads": 2}),
]
REAL = (math.nan, math.inf, -math.inf, "1", True, torch.tensor(1))


def every() -> list[tuple[Callable[..., object], Settings]]:
    made = [example for kind in pe.encodings().values() for example in kind.examples()]
    return [*((type(example), example.settings()) for example in made), *OTHERS]


def kinds(hint: Any) -> list[Any]:
    """What an annotation allows, one by one."""
    united = get_origin(hint) in (Union, types.UnionType)
    return [kind for part in get_args(hint) for kind in kinds(part)] if united else [hint]


def wrong(hint: Any, value: Any) -> list[Any]:
    """Values that a setting so annotated must not take, in place of a value that it does."""
    allowed = kinds(hint)
    missing = [] if types.NoneType in allowed else [None]
    if float in allowed:
        return [*REAL, *missing]
    if int in allowed:
        count = value if isinstance(value, int) else 4
        return [float(count), count + 0.5, *REAL, *missing]
    if bool in allowed:
        return ["no", None, 2]
    rows = [get_args(kind)[0] for kind in allowed if get_origin(kind) is Sequence]
    if not rows or rows[0] not in (int, float):
        return []
    bare = [3, 0.5, math.nan, True, object(), torch.tensor(3), *missing]
    filled = isinstance(value, tuple) and value
    return bare + [(one, *value[1:]) for one in wrong(rows[0], value[0])] if filled else bare


def cases() -> Iterator[tuple[Callable[..., object], Settings, str, list[Any]]]:
    for kind, settings in every():
        hints = get_type_hints(kind.__init__)
        for name, parameter in inspect.signature(kind).parameters.items():
            values = wrong(hints[name], settings.get(name, parameter.default))
            if values:
                yield kind, settings, name, values


CASES = list(cases())


@pytest.mark.parametrize(
    ("kind", "settings", "name", "values"), CASES, ids=[f"{c[0].__name__}-{c[2]}" for c in CASES]
)
def test_no_constructor_takes_what_its_formula_cannot_use(
    kind: Callable[..., object], settings: Settings, name: str, values: list[Any]
) -> None:
    # Nothing but the value is wrong.
    kind(**settings)
    for value in values:
        with pytest.raises(pe.SettingError) as caught:
            kind(**{**settings, name: value})
        assert name in str(caught.value), value


def test_every_kind_of_setting_is_met() -> None:
    met = {(kind.__name__, name) for kind, _, name, _ in CASES}
    known = {
        ("ALiBi", "heads"), ("ALiBi", "future"), ("ALiBi", "slopes"), ("ALiBi", "learned"),
        ("T5Bias", "max_distance"), ("Rotary", "base"), ("Rotary", "start"), ("SwinBias", "grid"),
        ("LongRoPE", "long"), ("MRoPE", "sections"), ("GridSinusoidal", "order"),
        ("StaticCache", "length"), ("Transformer", "heads"),
    }  # fmt: skip
    assert known <= met


@pytest.mark.parametrize("heads", [0, -1, 2.0, "4", None])
@pytest.mark.parametrize("depth", [0, 1])
def test_a_transformer_wants_heads(heads: Any, depth: int) -> None:
    with pytest.raises(pe.SettingError, match=r"Transformer\(heads=.*whole number"):
        pe.Transformer(10, 16, depth, heads)


@pytest.mark.parametrize(
    "sizes", [{"heads": 0}, {"heads": True}, {"model_dim": "64"}, {"max_length": 8.0}]
)
def test_make_wants_whole_sizes(sizes: Settings) -> None:
    with pytest.raises(pe.SettingError, match=rf"make\({next(iter(sizes))}=.*whole number"):
        pe.make("learned", **{"model_dim": 64, "heads": 4, **sizes})


@pytest.mark.parametrize("chunk", [0, 2.5, 8.0, math.nan, "8", True])
def test_linear_attention_wants_whole_chunks(chunk: Any) -> None:
    q = torch.zeros(1, 2, 4, 8)
    for call in (pe.linear_attention, pe.linear_step):
        with pytest.raises(pe.SettingError, match=rf"{call.__name__}\(chunk=.*whole number"):
            call(q, q, q, chunk=chunk)


@pytest.mark.parametrize("size", [8.0, 2.5, math.nan, "8", True, None])
def test_a_change_of_layout_wants_whole_sizes(size: Any) -> None:
    with pytest.raises(pe.SettingError, match=r"convert_layout\(head_dim="):
        pe.convert_layout(torch.zeros(8, 4), "half", "interleaved", head_dim=size)


def test_a_larger_table_wants_whole_sizes() -> None:
    table = pe.Learned(4, max_length=4)
    for length in (8.0, math.nan, "8", True):
        with pytest.raises(pe.SettingError, match=r"length=.*whole number"):
            table.extended(length)
    for grid in ((2.0, 2), (True, 4), ("2", 2)):
        with pytest.raises(pe.SettingError, match="sizes of 1 or more"):
            table.resized(grid, (4, 4))


@pytest.mark.parametrize("row", [torch.tensor, np.array, list, tuple])
def test_rows_of_numbers_are_kept_as_numbers(row: Callable[[list[float]], Any]) -> None:
    """However they are given, settings stay alike, and can be written down."""
    assert pe.ALiBi(2, slopes=row([0.5, 0.25])).slopes == (0.5, 0.25)
    assert pe.MRoPE(8, row([2, 1, 1])).sections == (2, 1, 1)
    assert pe.LongRoPE(row([1.0]), row([2.0]), 64, 4.0).long == (2.0,)


@pytest.mark.usefixtures("unhooked")
def test_one_is_no_truth() -> None:
    # It would pass where a setting is compared, and not where it is asked whether it is True.
    for make in (lambda: pe.MRoPE(16, (2, 3, 3), interleaved=1), lambda: pe.Shaw(8, values=0)):
        with pytest.raises(pe.SettingError, match="False"):
            make()
