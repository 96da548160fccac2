"""ForgetGate: its gates, their sums over long inputs, and how they travel through caches."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import posenc as pe
from posenc import (
    Attention,
    Cache,
    Context,
    ForgetGate,
    Positions,
    PositionsError,
    SettingError,
    ShapeError,
    Transformer,
    UnsupportedError,
    attend,
    lower,
    scores,
)
from tests.support.oracles import drawing

WIDTH, HEADS, KEY_HEADS, DIM, LENGTH = 10, 6, 3, 4, 9


def gate(width: int = WIDTH) -> ForgetGate:
    made = ForgetGate(width, HEADS).double()
    with torch.no_grad():
        made.gate.weight.copy_(drawing(1)(HEADS, width))
        made.gate.bias.copy_(drawing(2)(HEADS))
    return made


def inputs(length: int = LENGTH, batch: int = 2) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k, v and the layer's input."""
    draw = drawing(3)
    shapes = ((HEADS, DIM), (KEY_HEADS, DIM), (KEY_HEADS, DIM))
    q, k, v = (draw(batch, heads, length, dim) for heads, dim in shapes)
    return q, k, v, draw(batch, length, WIDTH)


@pytest.mark.parametrize(("dim", "heads"), [(0, 4), (16, 0)])
def test_bad_settings(dim: int, heads: int) -> None:
    with pytest.raises(SettingError, match=r"ForgetGate\((dim|heads)=0\): .* 1 or more"):
        ForgetGate(dim, heads)


@pytest.mark.parametrize("bias", [0.0, 5.0, -2.0])
def test_the_bias_is_where_gates_begin(bias: float) -> None:
    log_f = ForgetGate(WIDTH, HEADS, bias=bias).payload(torch.zeros(1, 3, WIDTH))
    expected = math.log(1 / (1 + math.exp(-bias)))
    torch.testing.assert_close(log_f, torch.full((1, HEADS, 3), expected))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_gates_are_at_least_float32(dtype: torch.dtype) -> None:
    low, x = gate().to(dtype), inputs()[3].to(dtype)
    found = low.payload(x)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    exact = gate()
    exact.load_state_dict(low.state_dict())
    torch.testing.assert_close(found.double(), exact.payload(x.double()), rtol=1e-6, atol=1e-6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(low.payload(x), found)


def test_a_gate_acts_on_what_came_before_it_alone() -> None:
    (q, k, _, x), made = inputs(), gate()
    before = scores(q, k, made, causal=True, context=Context(x))
    for at in range(LENGTH):
        changed = x.clone()
        changed[:, at] += 1.0
        after = scores(q, k, made, causal=True, context=Context(changed))
        moved = (after - before).nan_to_num().abs() > 1e-9
        expected = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
        expected[at:, :at] = True
        assert torch.equal(moved, expected.expand_as(moved)), at


def test_lowered_by_hand_from_x_or_from_a_payload() -> None:
    (q, k, v, x), made = inputs(), gate()
    expected = attend(q, k, v, made, causal=True, context=Context(x))
    for context in (Context(x), Context(payload=made.payload(x))):
        lowered = lower(made, LENGTH, causal=True, context=context)
        torch.testing.assert_close(attend(q, k, v, lowered), expected)
        fewer = lower(made, Positions.build(4, LENGTH, causal=True), context=context)
        torch.testing.assert_close(attend(q[:, :, -4:], k, v, fewer), expected[:, :, -4:])


def test_sums_over_32_thousand_packed_tokens_are_exact() -> None:
    """The last document reads differences of sums over all others, and sees nothing of that."""
    length, last = 1 << 15, 500
    draw, made = drawing(4), gate().float()
    x = draw(1, length, WIDTH).float()
    q, k = draw(1, HEADS, 1, DIM), draw(1, HEADS, length, DIM)
    whole = Positions.build(1, lengths=[3, length - 3 - last, last], causal=True)
    packed = scores(q, k, made, positions=whole, context=Context(x))[..., -last:]
    alone = scores(q, k[:, :, -last:], made, causal=True, context=Context(x[:, -last:]))
    assert made.payload(x).double().sum(-1).min() < -10_000
    torch.testing.assert_close(packed, alone, rtol=0, atol=1e-10)


def test_a_peer_with_a_cache_forgets_to_forget() -> None:
    """x-transformers sums the gates of new tokens alone: with one token nothing is forgotten."""
    pytest.importorskip("x_transformers")
    from x_transformers.x_transformers import Attention as Layer

    exact = partial(F.softmax, dim=-1)
    settings = {"dim": WIDTH, "dim_head": DIM, "heads": HEADS, "causal": True}
    layer = Layer(**settings, data_dependent_alibi=True, custom_attn_fn=exact).double()
    plain = Layer(**settings, custom_attn_fn=exact).double()
    plain.load_state_dict(layer.state_dict(), strict=False)
    made = gate()
    layer.data_dependent_alibi.to_forget_gates[0].load_state_dict(made.gate.state_dict())

    x = inputs()[3]
    full = layer(x)
    _, held = layer(x[:, :-1], return_intermediates=True)
    step = layer(x[:, -1:], cache=held)
    torch.testing.assert_close(step, plain(x[:, -1:], cache=held))
    assert (step - full[:, -1:]).abs().max() > 0.01

    def ours(x: Tensor, cache: Cache) -> Tensor:
        q, k, v = (
            linear(x).unflatten(-1, (HEADS, DIM)).transpose(1, 2)
            for linear in (layer.to_q, layer.to_k, layer.to_v)
        )
        out = attend(q, k, v, made, causal=True, context=Context(x), cache=cache)
        return layer.to_out(out.transpose(1, 2).flatten(-2))

    cache = Cache()
    steps = [ours(part, cache) for part in (x[:, :-1], x[:, -1:])]
    torch.testing.assert_close(torch.cat(steps, dim=1), full)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("policy", ["rotated", "raw"])
def test_a_layer_decodes_beside_a_rotation_and_a_window(batch: int, policy: str) -> None:
    width = HEADS * DIM
    parts = [pe.Rotary(DIM), gate(width), pe.SlidingWindow(5), pe.Sinks(1)]
    layer = Attention(width, HEADS, parts, kv_heads=KEY_HEADS).double()
    x = drawing(5)(batch, LENGTH, width)
    cache = Cache(policy)
    steps = [layer(part, cache=cache) for part in x.split([3, 1, 1, 4], dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), layer(x))
    assert cache.payload.shape == (batch, HEADS, LENGTH)


def gates_of_every_layer(kv_heads: int) -> Transformer:
    torch.manual_seed(1)
    width = HEADS * DIM
    return Transformer(
        13, width, 3, HEADS, lambda _: gate(width), kv_heads=kv_heads
    ).double().eval()  # fmt: skip


def arranged(kind: str) -> Callable[[int, int], Positions]:
    """Positions of the last tokens among those so far, padded on the left or packed."""
    real = torch.ones(2, LENGTH, dtype=torch.bool)
    real[0, :3] = False
    documents = torch.tensor([0] * 4 + [1] * 5)

    def at(new: int, so_far: int) -> Positions:
        given = {"padded": {"attention_mask": real[:, :so_far]}}
        given["packed"] = {"documents": documents[:so_far]}
        return Positions.build(new, so_far, causal=True, **given[kind])

    return at


@pytest.mark.parametrize("kind", ["padded", "packed"])
def test_a_model_decodes_what_is_padded_or_packed(kind: str) -> None:
    model, at = gates_of_every_layer(KEY_HEADS), arranged(kind)
    tokens = torch.arange(2 * LENGTH).view(2, LENGTH) * 5 % 13
    full = model(tokens, at(LENGTH, LENGTH))
    caches, steps, so_far = [Cache() for _ in model.blocks], [], 0
    for part in tokens.split([5, 1, 1, 2], dim=1):
        so_far += part.shape[1]
        steps.append(model(part, at(part.shape[1], so_far), caches))
    real = slice(3, None) if kind == "padded" else slice(None)
    torch.testing.assert_close(torch.cat(steps, dim=1)[:, real], full[:, real])


def test_a_cache_keeps_gates_that_were_given() -> None:
    (q, k, v, x), made, cache = inputs(), gate(), Cache()
    logs, out = made.payload(x), []
    for start, stop, given in ((0, 5, True), (5, 6, False), (6, 7, True), (7, 9, False)):
        new = (y[:, :, start:stop] for y in (q, k, v))
        known = Context(payload=logs[..., :stop]) if given else Context(x[:, start:stop])
        out.append(attend(*new, made, causal=True, context=known, cache=cache))
    expected = attend(q, k, v, made, causal=True, context=Context(x))
    torch.testing.assert_close(torch.cat(out, dim=2), expected)


MISFITS: dict[str, tuple[Callable[[Tensor], Context | None], type[Exception], str]] = {
    "none": (lambda x: None, PositionsError, "reads the layer that calls it: pass context="),
    "empty": (lambda x: Context(), PositionsError, "reads the layer's input: pass context="),
    "shorter x": (lambda x: Context(x[:, 1:]), ShapeError, "tells of 8 tokens, but .* 9 keys"),
    "wider x": (
        lambda x: Context(torch.cat((x, x), dim=-1)),
        ShapeError,
        r"ForgetGate\(dim=10, .* got Context\(x=...\) of shape \(2, 9, 20\)",
    ),
    "x of one row": (lambda x: Context(x[0]), ShapeError, r"shape \(9, 10\), but .* batch of 2"),
    "x of whole numbers": (
        lambda x: Context(x.long()),
        ShapeError,
        r"and torch.int64: floating-point \(batch, tokens, 10\) is needed",
    ),
    "x of three rows": (
        lambda x: Context(x[[0, 1, 0]]),
        ShapeError,
        r"Context\(x=...\) has shape \(3, 9, 10\), but q has a batch of 2",
    ),
    "payload of three rows": (
        lambda x: Context(payload=x.mT[[0, 1, 0]]),
        ShapeError,
        r"Context\(payload=...\) has shape \(3, 10, 9\), but q has a batch of 2",
    ),
    "payload of other heads": (
        lambda x: Context(payload=x.mT[:, :4]),
        ShapeError,
        r"gates of shape \(2, 4, 9\), but \(batch, 6, 9\) is needed",
    ),
}


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(("context", "error", "said"), MISFITS.values(), ids=MISFITS)
def test_a_context_that_does_not_fit(
    context: Callable[[Tensor], Context | None], error: type[Exception], said: str
) -> None:
    q, k, v, x = inputs()
    with pytest.raises(error, match=said):
        attend(q, k, v, gate(), causal=True, context=context(x))


def test_a_larger_batch_of_inputs_does_not_widen_the_output() -> None:
    q, k, _, x = inputs()
    with pytest.raises(ShapeError, match=r"\(2, 9, 10\), but q has a batch of 1"):
        scores(q[:1], k[:1], gate(), causal=True, context=Context(x))


def test_one_row_of_inputs_serves_every_row() -> None:
    (q, k, v, x), made = inputs(), gate()
    rows = [attend(q, k, v, made, causal=True, context=Context(y)) for y in (x[:1], x[[0, 0]])]
    torch.testing.assert_close(*rows)


def test_fewer_queries_need_the_gates_of_all_keys() -> None:
    (q, k, v, x), made = inputs(), gate()
    full = attend(q, k, v, made, causal=True, context=Context(x))
    last = attend(q[:, :, -3:], k, v, made, causal=True, context=Context(x))
    torch.testing.assert_close(last, full[:, :, -3:])
    with pytest.raises(ShapeError, match="tells of 3 tokens, but there are 9 keys"):
        attend(q[:, :, -3:], k, v, made, causal=True, context=Context(x[:, -3:]))
    with pytest.raises(ShapeError, match=r"\(2, 6, 3\), but \(batch, 6, 9\) is needed"):
        lower(made, Positions.build(3, LENGTH, causal=True), context=Context(x[:, -3:]))


def test_a_cache_filled_without_gates_says_so() -> None:
    (q, k, v, x), made = inputs(), gate()
    lowered = lower(made, 5, causal=True, context=Context(x[:, :5]))
    for first in (lowered, pe.NoPE()):
        cache = Cache()
        start = (y[:, :, :5] for y in (q, k, v))
        attend(*start, first, causal=True, cache=cache)
        rest = [y[:, :, 5:] for y in (q, k, v)]
        with pytest.raises(ShapeError, match="tells of 4 tokens, but there are 9 keys"):
            attend(*rest, made, causal=True, context=Context(x[:, 5:]), cache=cache)
        assert len(cache) == 5


def test_models_that_it_does_not_fit() -> None:
    tokens = torch.zeros(1, 3, dtype=torch.long)
    sizes = {"vocab_size": 5, "dim": 24, "depth": 1, "heads": HEADS}
    with pytest.raises(ShapeError, match=r"ForgetGate\(dim=10, .*\(1, 3, 24\)"):
        Transformer(**sizes, encoding=ForgetGate(10, HEADS))(tokens)
    with pytest.raises(ShapeError, match="made for heads=2"):
        Transformer(**sizes, encoding=ForgetGate(24, 2))
    with pytest.raises(UnsupportedError, match="defined for causal attention only"):
        Transformer(**sizes, encoding=ForgetGate(24, HEADS), causal=False)(tokens)
