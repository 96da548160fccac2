"""PaTH: its blocks, what it makes of padding and documents, caches, and gates beside it."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import Context, PaTH, Positions, attend
from posenc import terms as t
from posenc.backends.blocked import reflections
from posenc.errors import CacheError, SettingError, ShapeError, UnsupportedError
from tests.support.oracles import drawing

WIDTH, HEADS, KEY_HEADS, DIM, LENGTH = 12, 4, 2, 6, 23
EXACT = {"rtol": 1e-11, "atol": 1e-11}


def path() -> PaTH:
    torch.manual_seed(3)
    return PaTH(WIDTH, HEADS, DIM, KEY_HEADS, rank=5).double()


def inputs(length: int = LENGTH) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k, v and the layer's input."""
    draw = drawing(3)
    q, k, v = (draw(2, heads, length, DIM) for heads in (HEADS, KEY_HEADS, KEY_HEADS))
    return q, k, v, draw(2, length, WIDTH)


MASK = torch.ones(2, LENGTH)
MASK[0, :5], MASK[1, 17:] = 0, 0
PLACES: dict[str, tuple[Positions, tuple[t.Term, ...]]] = {
    "plain": (Positions.build(LENGTH, causal=True), ()),
    "the last queries": (Positions.build(7, LENGTH, causal=True), ()),
    "a window": (Positions.build(LENGTH, causal=True), (t.Mask(t.Window(6)), t.Mask(t.Sink(1)))),
    "a prefix": (Positions.build(LENGTH, causal=True), (t.Mask(t.Prefix(9)),)),
    "padded": (Positions.build(attention_mask=MASK, causal=True), ()),
    "packed": (Positions.build(lengths=[9, 1, 13], causal=True), ()),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("block", [1, 4, 23])
def test_blocks_are_the_equation(place: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflections, "BLOCK", block)
    monkeypatch.setattr("posenc.backends.blocked.chunks.ROWS", 3)
    monkeypatch.setattr("posenc.backends.blocked.chunks.SCORES", 1)
    (positions, masks), found = PLACES[place], []
    for backend in ("blocked", "reference"):
        q, k, v, x = leaves = [z.requires_grad_() for z in inputs()]
        encoding = path()
        out = attend(
            q[:, :, LENGTH - positions.q_len :],
            k,
            v,
            [encoding, *masks],
            positions=positions,
            context=Context(x),
            backend=backend,
        )
        leaves += encoding.parameters()
        found.append([out, *torch.autograd.grad(out.sin().sum(), leaves)])
    for got, wanted in zip(*found, strict=True):
        torch.testing.assert_close(got, wanted, **EXACT)


def test_padded_and_packed_rows_are_those_alone() -> None:
    q, k, v, x = inputs()
    encoding = path()
    padded = attend(q, k, v, encoding, positions=PLACES["padded"][0], context=Context(x))
    packed = attend(q, k, v, encoding, positions=PLACES["packed"][0], context=Context(x))
    for whole, rows, own in (
        (padded, slice(0, 1), slice(5, None)),
        (padded, slice(1, 2), slice(0, 17)),
        *((packed, slice(0, 2), own) for own in (slice(0, 9), slice(9, 10), slice(10, None))),
    ):
        alone = attend(
            *(z[rows, :, own] for z in (q, k, v)),
            encoding,
            causal=True,
            context=Context(x[rows, own]),
        )
        torch.testing.assert_close(whole[rows, :, own], alone, **EXACT)


def test_a_cache_gives_every_step_of_the_full_forward_with_gates_beside_it() -> None:
    """PaTH-FoX: two payloads travel through one cache, after padding on the right too."""
    q, k, v, x = inputs()
    parts = [path(), pe.ForgetGate(WIDTH, HEADS).double()]
    full = attend(q, k, v, parts, causal=True, context=Context(x))
    assert not torch.allclose(full, attend(q, k, v, parts[0], causal=True, context=Context(x)))
    cache, steps = pe.Cache("raw"), []
    for new in (slice(0, 9), *(slice(at, at + 1) for at in range(9, LENGTH))):
        args = (z[:, :, new] for z in (q, k, v))
        steps.append(attend(*args, parts, causal=True, context=Context(x[:, new]), cache=cache))
    torch.testing.assert_close(torch.cat(steps, dim=2), full, **EXACT)
    assert cache.payload.shape == (2, KEY_HEADS * (DIM + 1) + HEADS, LENGTH)
    with pytest.raises(CacheError, match=r'Householder reads keys that are not turned.*"raw"'):
        attend(q, k, v, parts[0], causal=True, context=Context(x), cache=pe.Cache())


def test_decoding_goes_on_after_padding() -> None:
    q, k, v, x = inputs()
    encoding, cache = path(), pe.Cache("raw")
    mask = torch.ones(2, 9)
    mask[0, 6:] = 0
    first = Positions.build(attention_mask=mask, causal=True)
    attend(
        *(z[:, :, :9] for z in (q, k, v)),
        encoding,
        positions=first,
        context=Context(x[:, :9]),
        cache=cache,
    )
    steps = [
        attend(
            *(z[:, :, at] for z in (q, k, v)),
            encoding,
            causal=True,
            context=Context(x[:, at]),
            cache=cache,
        )
        for at in (slice(9, 10), slice(10, 11), slice(11, 12))
    ]
    real = torch.tensor([0, 1, 2, 3, 4, 5, 9, 10, 11])
    short = attend(
        *(z[:1, :, real] for z in (q, k, v)), encoding, causal=True, context=Context(x[:1, real])
    )
    torch.testing.assert_close(torch.cat(steps, dim=2)[:1], short[:, :, -3:], **EXACT)


def test_a_half_turn_of_every_token_is_read_off_its_parity() -> None:
    """State tracking: tokens reflect one direction, and the sign of a score counts them."""
    w = torch.zeros(1, 1, 9, 2)
    w[..., 0] = 1.0
    turns = torch.tensor([1, 0, 0, 1, 1, 0, 1, 0, 1.0])
    q = k = torch.tensor([1.0, 0.0]).expand(1, 1, 9, 2)
    found = pe.scores(q, k, t.Householder(w, 2 * turns.view(1, 1, 9)), causal=True, scale=1.0)
    counts = turns.cumsum(0)
    parity = (counts[:, None] - counts).remainder(2).long()
    seen = torch.ones(9, 9).tril() > 0
    assert torch.equal(found[0, 0][seen], (1.0 - 2 * parity)[seen])


def test_other_keys_and_shapes_are_refused_by_name() -> None:
    q, k, v, x = inputs()
    for said, kind, call in (
        (r"PaTH\(heads=4, key_heads=3\).*multiple", SettingError, lambda: PaTH(12, 4, 6, 3)),
        (r"PaTH\(rank=0\)", SettingError, lambda: PaTH(12, 4, rank=0)),
        (
            "reads the layer that calls it",
            pe.PositionsError,
            lambda: attend(q, k, v, path(), causal=True),
        ),
        (
            r"x=.* shape \(2, 23, 5\)",
            ShapeError,
            lambda: attend(q, k, v, path(), causal=True, context=Context(x[..., :5])),
        ),
        (
            "2 rotations in one call",
            UnsupportedError,
            lambda: attend(q, k, v, [path(), pe.Rotary(DIM)], causal=True, context=Context(x)),
        ),
        (
            "for causal attention",
            UnsupportedError,
            lambda: attend(q, k, v, t.Householder(k, k[..., 0])),
        ),
    ):
        with pytest.raises(kind, match=said):
            call()
