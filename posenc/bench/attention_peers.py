"""Peers of attention: the bare operation of other libraries, biases made once outside, as they do.

Where a bias is learned its dense gradient is part of what is timed, for there the next layer's
begins.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc.bench.attention_inputs import AttentionInputs, refuse_quadratic
from posenc.bench.case import Call, Unavailable
from posenc.equation import distance_bias
from posenc.normal_form.pairs import through_network, visible
from posenc.terms import DistanceTable, GatherTable, Network, Offset, Rotate, Slope

Maker = Callable[[AttentionInputs], Call]


def dense_bias(inputs: AttentionInputs) -> Call:
    """SDPA with the bias as a dense mask, -inf where causality hides."""
    bias, learned = _dense(inputs)
    grouped = inputs.setting.kv_heads != inputs.setting.heads
    hidden = _hidden(inputs) if inputs.setting.causal and inputs.setting.queries is None else None

    def forward() -> Tensor:
        mask = bias if hidden is None else bias.masked_fill(hidden, -torch.inf)
        return F.scaled_dot_product_attention(
            inputs.q, inputs.k, inputs.v, attn_mask=mask, enable_gqa=grouped
        )

    return inputs.run(forward, learned)


def bias_of(inputs: AttentionInputs) -> Tensor:
    """The same bias (1, h, tq, tk) without a gradient, in q's dtype."""
    return _dense(inputs)[0].detach()


def masked(inputs: AttentionInputs) -> Call:
    """SDPA with the mask of all pairs, made once outside."""
    mask = visible(inputs.lowered.form)
    return inputs.run(
        lambda: F.scaled_dot_product_attention(inputs.q, inputs.k, inputs.v, attn_mask=mask)
    )


def transformers_plain(inputs: AttentionInputs) -> Call:
    """sdpa_attention_forward without a mask, as its models call it; rotary as Llama rotates."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    module: Any = SimpleNamespace(is_causal=inputs.setting.causal, training=False)
    rotations = [term for term in inputs.lowered.terms if isinstance(term, Rotate)]
    angle = torch.cat([rotations[0].q_angle[:, 0]] * 2, dim=-1) if rotations else torch.empty(0)
    cos, sin = (wave.to(inputs.q.dtype) for wave in (angle.cos(), angle.sin()))

    def forward() -> Tensor:
        q, k = inputs.q, inputs.k
        if rotations:
            q, k = apply_rotary_pos_emb(q, k, cos, sin)
        return sdpa_attention_forward(module, q, k, inputs.v, None)[0].transpose(1, 2)

    return inputs.run(forward)


def x_transformers(inputs: AttentionInputs) -> Call:
    """Attend; through SDPA for a fixed bias, which is all that it allows there."""
    from x_transformers.attend import Attend

    bias, learned = _dense(inputs)
    heads, kv_heads = inputs.setting.heads, inputs.setting.kv_heads
    attend = Attend(causal=inputs.setting.causal, heads=heads, flash=not learned)
    if heads == kv_heads:
        return inputs.run(lambda: attend(inputs.q, inputs.k, inputs.v, attn_bias=bias)[0], learned)
    # Its groups are every n-th head, ours are neighbours.
    theirs = torch.arange(heads).unflatten(0, (kv_heads, -1)).mT.flatten()
    q, bias, back = inputs.q[:, theirs], bias[:, theirs], theirs.argsort()
    return inputs.run(lambda: attend(q, inputs.k, inputs.v, attn_bias=bias)[0][:, back], learned)


def transformers_t5(inputs: AttentionInputs) -> Call:
    """eager_attention_forward of T5, with an additive mask, as its models call it."""
    from transformers.models.t5.modeling_t5 import eager_attention_forward

    bias, learned = _dense(inputs)
    mask = torch.zeros(1, 1, *bias.shape[-2:], dtype=inputs.q.dtype)
    mask = mask.masked_fill(_hidden(inputs), -torch.inf) if inputs.setting.causal else mask
    module: Any = SimpleNamespace(training=False)

    def forward() -> Tensor:
        out, _ = eager_attention_forward(
            module, inputs.q, inputs.k, inputs.v, mask, position_bias=bias
        )
        return out.transpose(1, 2)

    return inputs.run(forward, learned)


def transformers_sdpa(inputs: AttentionInputs) -> Call:
    """sdpa_attention_forward, through which its decoders take a step, with the bias as mask."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    bias, learned = _dense(inputs)
    groups = inputs.setting.heads // inputs.setting.kv_heads
    module: Any = SimpleNamespace(num_key_value_groups=groups, is_causal=True, training=False)

    def forward() -> Tensor:
        return sdpa_attention_forward(module, inputs.q, inputs.k, inputs.v, bias)[0].transpose(1, 2)

    return inputs.run(forward, learned)


def transformers_xlnet(inputs: AttentionInputs) -> Call:
    """rel_attn_core of XLNet, which is Transformer-XL's attention; tokens come before the batch."""
    from transformers.models.xlnet.modeling_xlnet import XLNetConfig, XLNetRelativeAttention

    refuse_quadratic(inputs.setting)
    heads, dim = inputs.setting.heads, inputs.setting.dim
    config = XLNetConfig(d_model=heads * dim, n_head=heads, dropout=0.0)
    layer = XLNetRelativeAttention(config).to(inputs.q.dtype).eval()
    table, content = (term for term in inputs.lowered.terms if isinstance(term, GatherTable))
    assert table.bias is not None
    with torch.no_grad():
        layer.r_w_bias.copy_(content.weight[:, 0])
        layer.r_r_bias.copy_(table.bias)
    # Both tables begin with the farthest key before a query, but XLNet's with one row more.
    rows = table.weight[:, : inputs.setting.length] if inputs.setting.causal else table.weight
    rows = F.pad(rows.detach(), (0, 0, 1, 0)).transpose(0, 1)[:, None].to(inputs.q.dtype)
    rows.requires_grad_(inputs.setting.training)
    mask = _hidden(inputs).to(inputs.q.dtype)[:, :, None, None] if inputs.setting.causal else None

    def forward() -> Tensor:
        q, k, v = (x.permute(2, 0, 1, 3) for x in (inputs.q, inputs.k, inputs.v))
        return layer.rel_attn_core(q, k, v, rows, attn_mask=mask).permute(1, 2, 0, 3)

    return inputs.run(forward, [rows, layer.r_w_bias, layer.r_r_bias])


def deberta_leaves(inputs: AttentionInputs) -> list[Tensor]:
    """DeBERTa's vectors of keys and of queries (h, 2 * buckets, d), of q's dtype, as leaves."""
    terms = (term for term in inputs.lowered.terms if isinstance(term, GatherTable))
    return [
        term.weight.detach().to(inputs.q.dtype).requires_grad_(inputs.setting.training)
        for term in terms
    ]


def transformers_deberta(inputs: AttentionInputs) -> Call:
    """DisentangledSelfAttention of DebertaV2, whose projections give what they are told."""
    from transformers.models.deberta_v2 import modeling_deberta_v2 as peer

    refuse_quadratic(inputs.setting)
    heads, dim, length = inputs.setting.heads, inputs.setting.dim, inputs.setting.length
    leaves = deberta_leaves(inputs)
    sizes = {"hidden_size": heads * dim, "num_attention_heads": heads, "relative_attention": True}
    kinds = {"pos_att_type": ["c2p", "p2c"], "position_buckets": 256, "share_att_key": False}
    config = peer.DebertaV2Config(**sizes, **kinds, max_relative_positions=512)
    layer: Any = peer.DisentangledSelfAttention(config).to(inputs.q.dtype).eval()
    layer.query_proj = layer.key_proj = nn.Identity()
    layer.pos_key_proj, layer.pos_query_proj = (_Given(_joined(leaf[None])) for leaf in leaves)
    table = torch.empty(leaves[0].shape[1], heads * dim, dtype=inputs.q.dtype)
    mask = (
        ~_hidden(inputs)[None, None] if inputs.setting.causal else torch.ones(1, 1, length, length)
    )
    placed = torch.empty(1, length, 1)
    relative = peer.build_relative_position(placed, placed, bucket_size=256, max_position=512)

    def forward() -> Tensor:
        q, k, v = (_joined(x) for x in (inputs.q, inputs.k, inputs.v))
        layer.value_proj = _Given(v)
        out = layer(k, mask, query_states=q, relative_pos=relative, rel_embeddings=table)[0]
        return out.unflatten(-1, (heads, dim)).transpose(1, 2)

    return inputs.run(forward, leaves)


def flex(inputs: AttentionInputs) -> Call:
    """Compiled FlexAttention, which cannot train on a CPU; the bias is read from one vector."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    device = inputs.q.device
    if inputs.setting.training and device.type == "cpu":
        raise Unavailable("FlexAttention has no backward on a CPU")
    length = inputs.setting.length
    (term,) = inputs.lowered.terms

    def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return i >= j

    def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if isinstance(term, Slope):
            return s - term.past[h] * (i - j)
        assert isinstance(term, DistanceTable)
        index = (j - i + term.zero).clamp(0, term.values.shape[-1] - 1)
        return s + term.values[h, index]

    mask = create_block_mask(causal, None, None, length, length, device=device)
    compiled: Any = torch.compile(flex_attention)
    return inputs.run(
        lambda: compiled(inputs.q, inputs.k, inputs.v, score_mod=score, block_mask=mask),
        inputs.learned,
    )


class _Given(nn.Module):
    """A projection whose result is known."""

    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.value = value

    def forward(self, _: Tensor) -> Tensor:
        return self.value


def _joined(x: Tensor) -> Tensor:
    """(b, h, t, d) as (b, t, h * d)."""
    return x.transpose(1, 2).flatten(-2)


def _dense(inputs: AttentionInputs) -> tuple[Tensor, list[Tensor]]:
    """The bias (1, h, tq, tk) as a leaf in q's dtype, and what of it is learned."""
    refuse_quadratic(inputs.setting)
    (term,) = inputs.lowered.terms
    assert isinstance(term, (DistanceTable, Slope, Offset, Network))
    with torch.no_grad():
        if isinstance(term, Offset):
            bias = (term.q[..., None] + term.k[..., None, :]).to(inputs.q.dtype)
        elif isinstance(term, Network):
            distance = inputs.lowered.positions.distance()[:, 0]
            bias = through_network(term, distance, term.by_query, torch.float32).to(inputs.q.dtype)
        else:
            bias = distance_bias(term, inputs.lowered.positions, torch.float32).to(inputs.q.dtype)
        bias = bias.expand(1, inputs.setting.heads, -1, -1).contiguous()
    return (bias.requires_grad_(), [bias]) if inputs.learned else (bias, [])


def _hidden(inputs: AttentionInputs) -> Tensor:
    """Pairs (tq, tk) that causality hides."""
    own = inputs.q.shape[-2]
    return torch.ones(own, inputs.setting.length, dtype=torch.bool).triu(
        inputs.setting.length - own + 1
    )
