"""What no cache can decode is refused, says what to do, and leaves every cache as it was."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import (
    Cache,
    CacheError,
    Context,
    Encoding,
    PosencError,
    Positions,
    RollingCache,
    SettingError,
    ShapeError,
    StaticCache,
    Tokens,
    attend,
    rerotate,
)
from posenc import terms as t
from posenc.testing.fixtures import VOCABULARY, model_for, tokens_for
from tests.support.oracles import drawing

HEADS, DIM, TOKENS, FIRST = 4, 8, 9, 5
KINDS: dict[str, Callable[[], Cache]] = {
    "growing": Cache,
    "rolling": lambda: RollingCache(6, 1),
    "static": lambda: StaticCache(TOKENS),
}
GATE = pe.ForgetGate(6, HEADS).double().requires_grad_(False)
MASKS = [pe.SlidingWindow(6), pe.Sinks(1)]
PARTS = [pe.Rotary(DIM), GATE, *MASKS]
EXAMPLES = [
    pytest.param(example, id=f"{name}-{at}")
    for name, kind in pe.encodings().items()
    for at, example in enumerate(kind.examples())
]


def inputs() -> list[Tensor]:
    """q, k, v and what their layer reads."""
    draw = drawing(2)
    return [draw(2, heads, TOKENS, DIM) for heads in (HEADS, 2, 2)] + [draw(2, TOKENS, 6)]


def call(cache: Cache, start: int, stop: int, parts: Any = PARTS, **changed: Any) -> Tensor:
    """The tokens from start to stop through a cache; `changed` replaces arguments of the call."""
    q, k, v, x = inputs()
    given = {name: y[:, :, start:stop] for name, y in (("q", q), ("k", k), ("v", v))}
    given |= {"causal": True, "context": Context(x[:, start:stop]), "cache": cache}
    return attend(encoding=parts, **(given | changed))


def narrow(*kept: slice) -> dict[str, Tensor]:
    """The new tokens with only a part of their tensors."""
    return {name: y[:, :, FIRST:6][kept] for name, y in zip("qkv", inputs()[:3], strict=True)}


def beside(*more: Any) -> list[Any]:
    return [*PARTS, *more]


def only_some(**changed: Any) -> Callable[[], dict[str, Any]]:
    return lambda: changed


FAILING: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "no token": ("was given no token", lambda: {"start": FIRST, "stop": FIRST}),
    "other batch": ("one cache per layer and per batch", lambda: one_row()),
    "other heads": ("one cache per layer and per batch", lambda: one_head()),
    "other dtype": (
        "float64 on cpu, but the new ones .* torch.float32",
        lambda: cast(torch.float32),
    ),
    "other device": ("on cpu, but the new ones .* on meta", lambda: cast("meta")),
    "other layout": (
        "turned as .'half'.* turn as .'interleaved'",
        only_some(parts=[pe.Rotary(DIM, layout="interleaved"), GATE, *MASKS]),
    ),
    "the encoding forgotten": (r"turn as \(\): give the encoding", only_some(parts=[GATE, *MASKS])),
    "context forgotten": ("pass context=", only_some(context=None)),
    "context of more tokens": (
        "the context tells of",
        lambda: {"context": Context(inputs()[3][:, FIRST:8])},
    ),
    "unknown backend": ("known are auto", only_some(backend="fast")),
    # These fail after the new keys were appended.
    "refusing backend": (
        "cannot compute this",
        lambda: {"parts": beside(pe.Shaw(DIM, clip=2).double()), "backend": "sdpa"},
    ),
    "bias of other heads": ("made for 3 heads", lambda: {"parts": beside(pe.ALiBi(3))}),
    "bias of other keys": (
        "DenseBias.values was made for 4 keys",
        lambda: {"parts": beside(t.DenseBias(torch.zeros(1, HEADS, 1, 4)))},
    ),
}


def cast(to: Any) -> dict[str, Any]:
    return {name: y.to(to) for name, y in narrow().items()} | {
        "parts": [pe.Rotary(DIM), *MASKS],
        "context": None,
    }


def one_row() -> dict[str, Any]:
    return narrow(slice(1)) | {"context": Context(inputs()[3][:1, FIRST:6])}


def one_head() -> dict[str, Any]:
    given = narrow()
    return given | {"k": given["k"][:, :1], "v": given["v"][:, :1]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("failure", FAILING)
def test_a_failed_call_leaves_the_cache_as_it_was(failure: str, kind: str) -> None:
    q, k, v, x = inputs()
    expected = attend(q, k, v, PARTS, causal=True, context=Context(x))
    cache, (said, make) = KINDS[kind](), FAILING[failure]
    for empty in (True, False):
        if not empty:
            torch.testing.assert_close(call(cache, 0, FIRST), expected[:, :, :FIRST])
        elif failure not in ("no token", "bias of other heads", "context forgotten"):
            continue
        held, wrong = len(cache), {"start": FIRST, "stop": FIRST + 1} | make()
        with pytest.raises((PosencError, RuntimeError), match=said):
            call(cache, **wrong)
        assert len(cache) == held
    for at in range(FIRST, TOKENS):
        torch.testing.assert_close(call(cache, at, at + 1), expected[:, :, at : at + 1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_fails_in_its_last_layer_leaves_all_caches(kind: str) -> None:
    model = model_for(pe.Rotary(16), masks=MASKS)
    tokens = tokens_for(TOKENS)
    caches = [KINDS[kind]() for _ in model.blocks]
    with torch.no_grad():
        expected = model(tokens)
        model(tokens[:, :FIRST], caches=caches)
        last = caches[-1].k
        caches[-1].k = last.float()
        with pytest.raises(CacheError, match="keys of shape"):
            model(tokens[:, FIRST:7], caches=caches)
        caches[-1].k = last
        got = model(tokens[:, FIRST:], caches=caches)
    torch.testing.assert_close(got, expected[:, FIRST:])


def test_each_layer_has_a_cache_of_its_own() -> None:
    model = model_for(pe.Rotary(16))
    with pytest.raises(ShapeError, match="2 caches were given, 1 of them different: use one Cache"):
        model(torch.zeros(1, 2).long() % VOCABULARY, caches=[Cache()] * 2)


def test_layers_may_keep_turned_or_raw_keys() -> None:
    model, tokens = model_for(pe.Rotary(16)), tokens_for(TOKENS)
    for policies in (("rotated", "raw"), ("raw", "rotated")):
        caches = [Cache(policy) for policy in policies]
        got = torch.cat([model(chunk, caches=caches) for chunk in tokens.split(4, 1)], dim=1)
        torch.testing.assert_close(got, model(tokens))


@pytest.mark.parametrize("kind", KINDS)
def test_positions_of_the_new_tokens_alone_are_too_few(kind: str) -> None:
    cache = KINDS[kind]()
    call(cache, 0, FIRST)
    said = (
        "Positions\\(Tokens"
        if kind == "static"
        else "positions of 1: give those of all 6, held and new"
    )
    with pytest.raises(CacheError, match=said):
        call(cache, FIRST, 6, positions=torch.tensor([FIRST]), causal=None)


@pytest.mark.parametrize("kind", KINDS)
def test_turned_keys_stay_where_they_were_turned(kind: str) -> None:
    """Positions that go back, are drawn again, or were read from a page too early."""
    at = torch.arange(6)
    slots = torch.arange(TOKENS if kind == "static" else 6)
    moved = Positions(Tokens(at[5:] - 1, at[5:]), Tokens(slots.roll(1), slots), causal=True)
    parts, cache = [pe.Rotary(DIM), *MASKS], KINDS[kind]()
    call(cache, 0, FIRST, parts)
    with pytest.raises(CacheError, match=r'put token 0 elsewhere.*policy="raw"'):
        call(cache, FIRST, 6, parts, positions=moved, causal=None)
    assert len(cache) == FIRST


def test_raw_keys_may_move_and_so_may_turned_ones_that_were_turned_again() -> None:
    q, k, v, _ = inputs()
    rope, shift = pe.Rotary(DIM), torch.tensor([0, 7, 9, 12, 40, 41])
    moved = Positions.build(1, ids=shift, causal=True)
    expected = attend(q[:, :, 5:6], k[:, :, :6], v[:, :, :6], rope, positions=moved)
    for policy in ("raw", "rotated"):
        cache = Cache(policy)
        call(cache, 0, FIRST, rope)
        if policy == "rotated":
            cache.k = rerotate(cache.k, torch.arange(FIRST), shift[:FIRST], rope)
            cache.placed = None
        got = call(cache, FIRST, 6, rope, positions=moved, causal=None)
        torch.testing.assert_close(got, expected)


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_lengths_that_are_none(kind: str) -> None:
    cache = KINDS[kind]()
    call(cache, 0, FIRST)
    for rows in (torch.tensor([0.0, 1.0]), [0, 1], torch.tensor([[0, 1]])):
        with pytest.raises(CacheError, match=r"rows of the batch, int64 \(b,\), are needed"):
            cache.reorder(rows)
    for rows in ([0, 2], [-1, 0]):
        with pytest.raises(CacheError, match="its batch has 2 rows, counted from 0"):
            cache.reorder(torch.tensor(rows))
    for length in (-1, 2.5, 2.0, True, 6):
        with pytest.raises(CacheError, match="can keep 0 to 5 of them"):
            cache.truncate(length)
    q, k, v, x = inputs()
    expected = attend(q, k, v, PARTS, causal=True, context=Context(x))
    torch.testing.assert_close(call(cache, FIRST, TOKENS), expected[:, :, FIRST:])


def test_a_length_is_at_least_one() -> None:
    for length in (0, -1):
        for make in (Cache, StaticCache, lambda length: RollingCache(4, length=length)):
            with pytest.raises(SettingError, match=f"length={length}"):
                make(length=length)


def needs_raw(encoding: Encoding) -> bool:
    """Whether it reads keys that were not turned."""
    own = pe.LearnedRotary, pe.FoPE, pe.LieRE, pe.CayleySTRING, pe.CirculantSTRING, pe.GRAPE
    if isinstance(encoding, own):
        # In these models query heads share keys, which then have no one spectrum.
        return encoding.heads is not None
    if isinstance(encoding, pe.Sinks):
        return encoding.rotary is not None
    by_content = isinstance(encoding, (pe.Mamba3Rotary, pe.PaTH, pe.PoPE, pe.SelectiveRotary))
    two_zones = isinstance(encoding, (pe.LMInfinite, pe.ReRoPE, pe.SelfExtend))
    return by_content or two_zones or isinstance(encoding, (pe.MixedRotary, pe.XPos))


@pytest.mark.parametrize("encoding", EXAMPLES)
def test_raw_keys_are_asked_for_where_they_are_needed_and_nowhere_else(encoding: Encoding) -> None:
    model = model_for(encoding, masks=MASKS, depth=1).requires_grad_(False)
    for make in (Cache, StaticCache, lambda length: RollingCache(6, 2, length=length)):
        cache = make(length=TOKENS)
        if needs_raw(encoding):
            with pytest.raises(CacheError, match=r'use \w*Cache\(policy="raw"\)|decode with Cache'):
                model(tokens_for(4), caches=[cache])
            assert len(cache) == 0
        else:
            model(tokens_for(4), caches=[cache])
            assert len(cache) == 4
