"""One query the short way: as attend gives it by name, by the C kernel and by SDPA."""

from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import attention
from posenc.native import query
from posenc.one_query import one_query
from posenc.terms import DenseBias, Scale
from tests.support.steps import recorded

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each query went the short way."""
    return recorded(monkeypatch, "plain_query")


@pytest.fixture(params=["native", "sdpa"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What computes it: the kernel, or without one SDPA."""
    if request.param == "sdpa":
        monkeypatch.setattr(query, "LIBRARY", "switched off")
    elif isinstance(query.LIBRARY, str):
        pytest.skip(query.LIBRARY)
    return request.param


def qkv(
    heads: int = 4, key_heads: int = 4, keys: int = 7, width: int = 8, dim: int = 8
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (2, heads, 1, dim), (2, key_heads, keys, dim), (2, key_heads, keys, width)
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("causal", [None, False, True])
@pytest.mark.parametrize("sizes", [{}, {"key_heads": 2}, {"key_heads": 1, "width": 5}], ids=str)
@pytest.mark.parametrize("scale", [None, 0.3, -1.0])
def test_it_gives_the_same_bits(
    dtype: torch.dtype,
    causal: bool | None,
    sizes: dict[str, int],
    scale: float | None,
    taken: list[bool],
    backend: str,
) -> None:
    q, k, v = (x.to(dtype) for x in qkv(**sizes))
    actual = attention.attend(q, k, v, causal=causal, scale=scale)
    assert taken == [True]
    backend = backend if query.suits(q) else "sdpa"
    expected = attention.attend(q, k, v, causal=causal, scale=scale, backend=backend)
    assert torch.equal(actual, expected)
    assert actual.dtype == expected.dtype
    slow = attention.attend(*(x.double() for x in (q, k, v)), scale=scale, backend="reference")
    bound = 1e-12 if dtype == torch.float64 else 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(actual.double(), slow, rtol=bound, atol=bound)


KEYS = 7
LOWERED: dict[str, Any] = {
    "nothing": lambda: None,
    "rotary": lambda: pe.Rotary(8),
    "partial": lambda: pe.Rotary(8, rotary_dim=4, layout="interleaved"),
    "alibi": lambda: pe.ALiBi(4),
    "alibi inside": lambda: pe.ALiBi(4, inside=True),
    "t5": lambda: pe.T5Bias(4),
    "fire": lambda: pe.FIRE(4, width=8),
    "both": lambda: [pe.Rotary(8), pe.ALiBi(4)],
    "window": lambda: [pe.Rotary(8), pe.SlidingWindow(3), pe.Sinks(1)],
    "scaled": lambda: [pe.ALiBi(4), Scale(0.5)],
    "dense": lambda: DenseBias(torch.linspace(-1, 1, 2 * 4 * KEYS).view(2, 4, 1, KEYS)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("name", LOWERED)
def test_lowered_terms_give_the_same(
    name: str, key_heads: int, dtype: torch.dtype, taken: list[bool], backend: str
) -> None:
    q, k, v = (x.to(dtype) for x in qkv(key_heads=key_heads, keys=KEYS))
    positions = pe.Positions.build(1, KEYS, causal=True)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    lowered = pe.lower(LOWERED[name](), positions, dtype=wide)
    exact = backend == "sdpa" or not query.suits(q) or name in ("nothing", "rotary", "partial")
    backend = backend if query.suits(q) and name != "dense" else "sdpa"
    # The kernel makes biases itself where it is asked by name, and rounds them otherwise.
    bound = 0.0 if exact else 4 * torch.finfo(dtype).eps
    for scale in (None, 0.3):
        with torch.no_grad():
            actual = attention.attend(q, k, v, lowered, scale=scale)
            expected = attention.attend(q, k, v, lowered, scale=scale, backend=backend)
        torch.testing.assert_close(actual, expected, rtol=bound, atol=bound)
    assert taken == [True, True]


@pytest.mark.skipif(isinstance(query.LIBRARY, str), reason=str(query.LIBRARY))
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("heads", [2, 7])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_heads_that_share_keys_get_the_bits_of_each_alone(
    dtype: torch.dtype, heads: int, masked: bool
) -> None:
    # Of sizes that vectors divide, so that nothing is packed. Nearly equal weights leave sums so
    # small, and there are so many of them, that another order of terms shows in 16 bits.
    scale = 0.01
    q, k, v = (x.to(dtype) for x in qkv(heads, 1, keys=131, width=1024, dim=64))
    mask = torch.linspace(-0.1, 0.1, heads * 131).view(1, heads, 1, 131) if masked else None
    together = query.attend(q, k, v, scale, mask)
    for head in range(heads):
        own = None if mask is None else mask[:, head : head + 1]
        alone = query.attend(q[:, head : head + 1], k, v, scale, own)
        assert torch.equal(together[:, head : head + 1], alone)


@pytest.mark.parametrize(("key_heads", "dtype"), [(4, torch.float32), (1, torch.bfloat16)])
def test_what_a_mask_hides_is_not_read(key_heads: int, dtype: torch.dtype, backend: str) -> None:
    q, k, v = (x.to(dtype) for x in qkv(key_heads=key_heads, keys=200, width=16, dim=16))
    mask = torch.zeros(1, 1, 1, 200).masked_fill(torch.arange(200) < 130, -torch.inf)
    expected = one_query(q, k[:, :, 130:], v[:, :, 130:], 0.3)
    for hidden in (mask, mask == 0):
        torch.testing.assert_close(one_query(q, k, v, 0.3, hidden), expected)
    if backend == "native":
        k[:, :, :130] = v[:, :, :130] = torch.nan
        torch.testing.assert_close(one_query(q, k, v, 0.3, mask), expected)
    k[:, :, :130] = v[:, :, :130] = 0.0
    assert not one_query(q, k, v, 0.3, torch.full_like(mask, -torch.inf)).any()


def test_any_strides_are_read(backend: str) -> None:
    q, k, v = qkv(keys=70)
    mask = torch.linspace(-1, 1, 8 * 70).view(2, 4, 1, 70)
    expected = one_query(q, k, v, 0.3, mask)
    across = [x.mT.contiguous().mT for x in (q, k, v, mask)]
    torch.testing.assert_close(one_query(*across[:3], 0.3, across[3]), expected)
    apart = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    torch.testing.assert_close(one_query(*apart, 0.3, mask), expected)
    # One number has any step, and `contiguous` leaves it.
    x = [*qkv(keys=1, width=1, dim=1), mask[..., :1].clone()]
    for some in ([3], [0, 1, 2], [0, 1, 2, 3]):
        stepped = [
            y.as_strided(y.shape, (*y.stride()[:3], 5 if i in some else 1)) for i, y in enumerate(x)
        ]
        assert torch.equal(one_query(*stepped[:3], 0.3, stepped[3]), one_query(*x[:3], 0.3, x[3]))


def test_packed_documents_are_told_apart(taken: list[bool]) -> None:
    q, k, v = qkv(keys=KEYS)
    documents = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    keys = pe.Tokens(torch.arange(KEYS), document=documents)
    queries = pe.Tokens(torch.tensor([6]), document=documents[-1:])
    lowered = pe.lower(pe.ALiBi(4), pe.Positions(queries, keys, True, unit_step=True))
    out = attention.attend(q, k, v, lowered)
    k[:, :, :3] = v[:, :, :3] = 100.0
    assert torch.equal(out, attention.attend(q, k, v, lowered))
    # The second is computed as the layer before.
    assert taken == [True]


OTHERS: dict[str, Any] = {
    "an encoding": lambda: pe.ALiBi(4),
    "vectors": lambda: lowered_for(pe.Shaw(8, clip=4)),
    "a narrow window": lambda: lowered_for(pe.SlidingWindow(1)),
    "zones": lambda: lowered_for(pe.ReRoPE(8, window=3)),
    "temperature": lambda: lowered_for(next(iter(pe.Temperature.examples()))),
    "a padded query": lambda: padded(pe.ALiBi(4), [5, 7]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
def test_factors_that_grow_leave_the_range_of_float16(
    dtype: torch.dtype, taken: list[bool], backend: str
) -> None:
    q, k, v = (x.to(dtype) for x in qkv(keys=KEYS))
    lowered = lowered_for(pe.XPos(8))
    actual = attention.attend(q, k, v, lowered)
    assert taken == [dtype != torch.float16]
    backend = backend if query.suits(q) else "sdpa"
    assert torch.equal(actual, attention.attend(q, k, v, lowered, backend=backend))


def lowered_for(encoding: Any) -> pe.Lowered:
    return pe.lower(encoding, pe.Positions.build(1, KEYS, causal=True))


def padded(encoding: Any, lengths: list[int] | None = None) -> pe.Lowered:
    """Behind padding on the left; before it, where rows have such lengths."""
    slots = torch.arange(KEYS)
    real = slots >= torch.tensor([[3], [0]])
    if lengths is not None:
        real = slots < torch.tensor(lengths)[:, None]
    positions = pe.Positions.build(1, KEYS, causal=True, attention_mask=real)
    return pe.lower(encoding, positions)


@pytest.mark.parametrize("name", ["nothing", "rotary", "alibi", "t5", "both", "window"])
def test_padding_is_hidden_and_not_read(name: str, taken: list[bool], backend: str) -> None:
    lowered = padded(LOWERED[name]())
    tensors = qkv(keys=KEYS, key_heads=2)
    with torch.no_grad():
        expected = attention.attend(*tensors, lowered, backend="reference")
        for x in tensors[1:]:
            x[0, :, :3] = torch.nan
        # The second is computed as the layer before.
        for _ in range(2):
            torch.testing.assert_close(attention.attend(*tensors, lowered), expected)
    # SDPA reads all keys, and has padding set to zero each time.
    assert taken == ([True] if backend == "native" else [False, False])


def test_padding_goes_the_long_way_where_it_would_be_read(taken: list[bool], backend: str) -> None:
    """By SDPA, which reads all keys, or by what computes gradients."""
    encoding = pe.T5Bias(4)
    tensors = qkv(keys=KEYS)
    for x in tensors[1:]:
        x[0, :, :3] = torch.nan
    out = attention.attend(*tensors, padded(encoding))
    out.sum().backward()
    assert out.isfinite().all()
    assert next(encoding.parameters()).grad.isfinite().all()
    with torch.no_grad():
        attention.attend(*tensors, padded(encoding))
    assert taken == [False, backend == "native"]


@pytest.mark.parametrize("name", OTHERS)
def test_others_go_the_long_way(name: str, taken: list[bool]) -> None:
    attention.attend(*qkv(keys=KEYS), OTHERS[name](), causal=True)
    assert taken == [False]


def test_terms_that_do_not_fit_are_refused_as_ever() -> None:
    q, k, v = qkv(keys=KEYS)
    with pytest.raises(pe.PositionsError, match="positions for 1 queries and 7 keys"):
        attention.attend(q, k[:, :, 1:], v[:, :, 1:], lowered_for(pe.ALiBi(4)))
    with pytest.raises(pe.ShapeError, match="8 heads"):
        attention.attend(q, k, v, lowered_for(pe.ALiBi(8)))
    with pytest.raises(pe.PositionsError, match="causal=False"):
        attention.attend(q, k, v, lowered_for(pe.ALiBi(4)), causal=False)
    prerotated = pe.lower(
        pe.Rotary(8), pe.Positions.build(1, KEYS, causal=True), keys_prerotated=True
    )
    with pytest.raises(pe.PositionsError, match="rotated in a"):
        attention.attend(q, k, v, prerotated)


@pytest.mark.parametrize("encoding", [pe.T5Bias(4), pe.LearnedRotary(8)], ids=str)
def test_what_is_learned_gets_its_gradient(encoding: pe.Encoding) -> None:
    q, k, v = qkv(keys=KEYS)
    attention.attend(q, k, v, lowered_for(encoding)).sum().backward()
    (grad,) = (x.grad.clone() for x in encoding.parameters())
    encoding.zero_grad()
    attention.attend(q, k, v, lowered_for(encoding), backend="reference").sum().backward()
    torch.testing.assert_close(grad, next(encoding.parameters()).grad)


@pytest.mark.parametrize("keys", [1, 255, 256, 300])
@pytest.mark.parametrize("key_heads", [1, 4])
@pytest.mark.parametrize("dtype", FLOATS)
def test_it_takes_what_auto_takes(
    keys: int, key_heads: int, dtype: torch.dtype, taken: list[bool]
) -> None:
    q, k, v = (x.to(dtype) for x in qkv(key_heads=key_heads, keys=keys))
    attention.attend(q, k, v, causal=True)
    assert taken == [True]
    told = pe.explain_backend(q, k, v, causal=True)
    assert told.endswith("native: taken" if query.suits(q) else "sdpa: taken")


def test_gradients_go_the_long_way(taken: list[bool]) -> None:
    for at in range(3):
        tensors = qkv()
        tensors[at].requires_grad_()
        attention.attend(*tensors).sum().backward()
        assert tensors[at].grad is not None
        with torch.no_grad():
            attention.attend(*tensors)
    assert taken == 3 * [False, True]


@pytest.mark.usefixtures("unhooked")
def test_what_does_not_fit_is_refused_as_ever() -> None:
    q, k, v = qkv()
    for wrong in ((q[0], k, v), (q, k[:1], v), (q, k[..., :4], v), (q, k[:, :3], v[:, :3])):
        with pytest.raises(pe.ShapeError):
            attention.attend(*wrong)
    with pytest.raises(pe.PositionsError, match="0 keys"):
        attention.attend(*qkv(keys=0))
    with pytest.raises(pe.ShapeError, match="float8"):
        attention.attend(*(x.to(torch.float8_e4m3fn) for x in (q, k, v)))
