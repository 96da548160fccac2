"""MLA: both forms compute the same, from latents that are kept once."""

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc.backends import BACKENDS
from tests.support.oracles import drawing

HEADS, LATENT, CONTENT, ROPE, VALUE = 4, 20, 12, 8, 10
ROPED = pe.Rotary(20, layout="interleaved", rotary_dim=8, start=-8, scaling=pe.YaRN(4.0, 64))
SIZES = {"latent_dim": LATENT, "content_dim": CONTENT, "rope_dim": ROPE, "value_dim": VALUE}


def layer(encoding: object = ROPED, **more: object) -> pe.LatentAttention:
    return pe.LatentAttention(24, HEADS, encoding, **SIZES, **more).double()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(
    "encoding",
    [
        ROPED,
        [ROPED, pe.ALiBi(HEADS), pe.Temperature("log_n", 4)],
        [ROPED, pe.SinkLogits(HEADS, value=0.7)],
    ],
)
def test_both_forms_are_one_function(encoding: object, causal: bool) -> None:
    attention, x = layer(encoding, causal=causal, query_latent_dim=16), drawing(0)(2, 7, 24)
    x = x.double().requires_grad_()
    padded = pe.Positions.build(
        attention_mask=torch.tensor([[1] * 7, [0, 0] + [1] * 5]), causal=causal
    )
    given = [x, *attention.parameters()]
    outs = [attention(x, positions=padded, absorbed=absorbed) for absorbed in (False, True)]
    torch.testing.assert_close(*outs, rtol=0, atol=1e-12)
    grads = [torch.autograd.grad(out.square().sum(), given) for out in outs]
    torch.testing.assert_close(*grads, rtol=0, atol=1e-11)


@pytest.mark.parametrize("absorbed", [True, False, None])
@pytest.mark.parametrize("policy", ["rotated", "raw"])
def test_decoding_from_latents_is_the_whole(absorbed: bool | None, policy: str) -> None:
    attention, x = layer(), drawing(1)(2, 9, 24).double()
    with torch.no_grad():
        whole, cache = attention(x), pe.LatentCache(policy)
        parts = [
            attention(part, cache=cache, absorbed=absorbed) for part in x.split((5, 2, 1, 1), 1)
        ]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("absorbed", [True, False, None])
def test_a_sink_stands_beside_latents_of_a_cache(absorbed: bool | None) -> None:
    """A key without a value, of padded rows and token by token."""
    attention, x = layer([ROPED, pe.SinkLogits(HEADS, value=0.7)]), drawing(1)(2, 7, 24).double()
    mask = torch.tensor([[1] * 7, [0, 0, 1, 1, 1, 1, 1]])
    placed = pe.Positions.build(attention_mask=mask, causal=True)
    with torch.no_grad():
        whole, cache = attention(x, positions=placed, absorbed=False), pe.LatentCache()
        first = pe.Positions.build(attention_mask=mask[:, :4], causal=True)
        parts = [attention(x[:, :4], positions=first, cache=cache, absorbed=absorbed)]
        parts += [attention(x[:, t : t + 1], cache=cache, absorbed=absorbed) for t in (4, 5, 6)]
        plain = layer()
        plain.load_state_dict(attention.state_dict(), strict=False)
        assert (plain(x, positions=placed) - whole)[mask.bool()].abs().max() > 0.01
    got = torch.cat(parts, dim=1)
    torch.testing.assert_close(got[mask.bool()], whole[mask.bool()], rtol=0, atol=1e-12)


def test_a_bias_of_rows_and_columns_passes_too() -> None:
    attention, x = layer([ROPED, pe.SwinBias(HEADS, (2, 3))], causal=False), drawing(4)(2, 6, 24)
    outs = [attention(x.double(), absorbed=absorbed) for absorbed in (False, True)]
    torch.testing.assert_close(*outs, rtol=0, atol=1e-12)


def test_nan_of_padding_stays_out_of_the_latents() -> None:
    attention, x, cache = layer(), drawing(2)(2, 6, 24).double(), pe.LatentCache()
    mask = torch.tensor([[1] * 5, [0, 0, 1, 1, 1]])
    expected = attention(x[1:, 2:])
    x[1, :2] = torch.nan
    placed = pe.Positions.build(attention_mask=mask, causal=True)
    with torch.no_grad():
        attention(x[:, :5], positions=placed, cache=cache, absorbed=False)
        step = attention(x[:, 5:], cache=cache, absorbed=True)
    torch.testing.assert_close(step[1], expected[0, -1:], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("encoding", "says"),
    [
        (pe.Rotary(20), "Rotate turns dimensions from 0 on"),
        (pe.Shaw(20, 4), "GatherTable reads the queries, keys or values of a head"),
        (pe.ReRoPE(20, 4), "Zones reads"),
    ],
)
def test_what_cannot_pass_between_the_maps_is_refused(encoding: pe.Encoding, says: str) -> None:
    for absorbed in (True, False):
        with pytest.raises(pe.UnsupportedError, match=says):
            layer(encoding)(torch.zeros(1, 3, 24).double(), absorbed=absorbed)


def test_it_stands_in_a_transformer() -> None:
    """Terms that the model lowered once serve it, and so do caches of latents."""
    model = pe.Transformer(11, 80, 2, HEADS, ROPED).double()
    for block in model.blocks:
        block.attention = pe.LatentAttention(80, HEADS, **SIZES).double()
    tokens, caches = torch.arange(8)[None], [pe.LatentCache() for _ in model.blocks]
    with torch.no_grad():
        whole = model(tokens)
        parts = [model(part, caches=caches) for part in tokens.split((5, 1, 1, 1), dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=0, atol=1e-12)
    assert caches[1].k is not None
    assert caches[1].k.shape == (1, 1, 8, LATENT + ROPE)


ONE_KEY = pe.Rotary(576, layout="interleaved", rotary_dim=64, start=-64)


def absorbed_call(queries: int) -> tuple[Tensor, Tensor, Tensor]:
    draw = drawing(3)
    q, k = draw(1, 16, queries, 576).float(), draw(1, 1, 40, 576).float()
    return q, k, k[..., :512]


@pytest.mark.parametrize("backend", sorted(set(BACKENDS) - {"triton", "flex"}))
def test_backends_take_one_key_of_576_and_values_of_512(backend: str) -> None:
    for queries in (1, 24):
        call = absorbed_call(queries)
        expected = pe.attend(
            *(x.double() for x in call), ONE_KEY, causal=True, scale=192**-0.5, backend="reference"
        )
        out = pe.attend(*call, ONE_KEY, causal=True, scale=192**-0.5, backend=backend)
        torch.testing.assert_close(out.double(), expected, rtol=0, atol=2e-5)


def test_auto_takes_the_kernel_for_latents() -> None:
    told = pe.explain_backend(*absorbed_call(24), ONE_KEY, causal=True)
    assert told.endswith("native: taken")
