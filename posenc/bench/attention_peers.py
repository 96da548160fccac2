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

from posenc.bench.attending import Attended, refuse_quadratic
from posenc.bench.case import Call, Unavailable
from posenc.equation import distance_bias
from posenc.terms import DistanceTable, GatherTable, Slope

Maker = Callable[[Attended], Call]


def dense_bias(at: Attended) -> Call:
    """SDPA with the bias as a dense mask, -inf where causality hides."""
    bias, learned = _dense(at)
    grouped = at.setting.kv_heads != at.setting.heads
    hidden = _hidden(at) if at.setting.causal and at.setting.queries is None else None

    def forward() -> Tensor:
        mask = bias if hidden is None else bias.masked_fill(hidden, -torch.inf)
        return F.scaled_dot_product_attention(at.q, at.k, at.v, attn_mask=mask, enable_gqa=grouped)

    return at.run(forward, learned)


def x_transformers(at: Attended) -> Call:
    """Attend; through SDPA for a fixed bias, which is all that it allows there."""
    from x_transformers.attend import Attend

    bias, learned = _dense(at)
    heads, kv_heads = at.setting.heads, at.setting.kv_heads
    attend = Attend(causal=at.setting.causal, heads=heads, flash=not learned)
    if heads == kv_heads:
        return at.run(lambda: attend(at.q, at.k, at.v, attn_bias=bias)[0], learned)
    # Its groups are every n-th head, ours are neighbours.
    theirs = torch.arange(heads).unflatten(0, (kv_heads, -1)).mT.flatten()
    q, bias, back = at.q[:, theirs], bias[:, theirs], theirs.argsort()
    return at.run(lambda: attend(q, at.k, at.v, attn_bias=bias)[0][:, back], learned)


def transformers_t5(at: Attended) -> Call:
    """eager_attention_forward of T5, with an additive mask, as its models call it."""
    from transformers.models.t5.modeling_t5 import eager_attention_forward

    bias, learned = _dense(at)
    mask = torch.zeros(1, 1, *bias.shape[-2:], dtype=at.q.dtype)
    mask = mask.masked_fill(_hidden(at), -torch.inf) if at.setting.causal else mask
    module: Any = SimpleNamespace(training=False)

    def forward() -> Tensor:
        out, _ = eager_attention_forward(module, at.q, at.k, at.v, mask, position_bias=bias)
        return out.transpose(1, 2)

    return at.run(forward, learned)


def transformers_sdpa(at: Attended) -> Call:
    """sdpa_attention_forward, through which its decoders take a step, with the bias as mask."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    bias, learned = _dense(at)
    groups = at.setting.heads // at.setting.kv_heads
    module: Any = SimpleNamespace(num_key_value_groups=groups, is_causal=True, training=False)

    def forward() -> Tensor:
        return sdpa_attention_forward(module, at.q, at.k, at.v, bias)[0].transpose(1, 2)

    return at.run(forward, learned)


def transformers_xlnet(at: Attended) -> Call:
    """rel_attn_core of XLNet, which is Transformer-XL's attention; tokens come before the batch."""
    from transformers.models.xlnet.modeling_xlnet import XLNetConfig, XLNetRelativeAttention

    refuse_quadratic(at.setting)
    heads, dim = at.setting.heads, at.setting.dim
    config = XLNetConfig(d_model=heads * dim, n_head=heads, dropout=0.0)
    layer = XLNetRelativeAttention(config).to(at.q.dtype).eval()
    table, content = (term for term in at.lowered.terms if isinstance(term, GatherTable))
    assert table.bias is not None
    with torch.no_grad():
        layer.r_w_bias.copy_(content.weight[:, 0])
        layer.r_r_bias.copy_(table.bias)
    # Both tables begin with the farthest key before a query, but XLNet's with one row more.
    rows = table.weight[:, : at.setting.length] if at.setting.causal else table.weight
    rows = F.pad(rows.detach(), (0, 0, 1, 0)).transpose(0, 1)[:, None].to(at.q.dtype)
    rows.requires_grad_(at.setting.training)
    mask = _hidden(at).to(at.q.dtype)[:, :, None, None] if at.setting.causal else None

    def forward() -> Tensor:
        q, k, v = (x.permute(2, 0, 1, 3) for x in (at.q, at.k, at.v))
        return layer.rel_attn_core(q, k, v, rows, attn_mask=mask).permute(1, 2, 0, 3)

    return at.run(forward, [rows, layer.r_w_bias, layer.r_r_bias])


def transformers_deberta(at: Attended) -> Call:
    """DisentangledSelfAttention of DebertaV2, whose projections give what they are told."""
    from transformers.models.deberta_v2 import modeling_deberta_v2 as peer

    refuse_quadratic(at.setting)
    heads, dim, length = at.setting.heads, at.setting.dim, at.setting.length
    to_keys, to_queries = (term for term in at.lowered.terms if isinstance(term, GatherTable))
    leaves = [
        term.weight.detach().to(at.q.dtype).requires_grad_(at.setting.training)
        for term in (to_keys, to_queries)
    ]
    sizes = {"hidden_size": heads * dim, "num_attention_heads": heads, "relative_attention": True}
    kinds = {"pos_att_type": ["c2p", "p2c"], "position_buckets": 256, "share_att_key": False}
    config = peer.DebertaV2Config(**sizes, **kinds, max_relative_positions=512)
    layer: Any = peer.DisentangledSelfAttention(config).to(at.q.dtype).eval()
    layer.query_proj = layer.key_proj = nn.Identity()
    layer.pos_key_proj, layer.pos_query_proj = (_Given(_joined(leaf[None])) for leaf in leaves)
    table = torch.empty(leaves[0].shape[1], heads * dim, dtype=at.q.dtype)
    mask = ~_hidden(at)[None, None] if at.setting.causal else torch.ones(1, 1, length, length)
    placed = torch.empty(1, length, 1)
    relative = peer.build_relative_position(placed, placed, bucket_size=256, max_position=512)

    def forward() -> Tensor:
        q, k, v = (_joined(x) for x in (at.q, at.k, at.v))
        layer.value_proj = _Given(v)
        out = layer(k, mask, query_states=q, relative_pos=relative, rel_embeddings=table)[0]
        return out.unflatten(-1, (heads, dim)).transpose(1, 2)

    return at.run(forward, leaves)


def flex(at: Attended) -> Call:
    """Compiled FlexAttention, which cannot train on a CPU; the bias is read from one vector."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if at.setting.training:
        raise Unavailable("FlexAttention has no backward on a CPU")
    length = at.setting.length
    (term,) = at.lowered.terms

    def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return i >= j

    def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if isinstance(term, Slope):
            return s - term.past[h] * (i - j)
        assert isinstance(term, DistanceTable)
        index = (j - i + term.zero).clamp(0, term.values.shape[-1] - 1)
        return s + term.values[h, index]

    mask = create_block_mask(causal, None, None, length, length, device="cpu")
    compiled: Any = torch.compile(flex_attention)
    return at.run(lambda: compiled(at.q, at.k, at.v, score_mod=score, block_mask=mask))


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


def _dense(at: Attended) -> tuple[Tensor, list[Tensor]]:
    """The bias (1, h, tq, tk) as a leaf in q's dtype, and what of it is learned."""
    refuse_quadratic(at.setting)
    (term,) = at.lowered.terms
    assert isinstance(term, (DistanceTable, Slope))
    with torch.no_grad():
        bias = distance_bias(term, at.lowered.positions, torch.float32).to(at.q.dtype)
        bias = bias.expand(1, at.setting.heads, -1, -1).contiguous()
    return (bias.requires_grad_(), [bias]) if at.learned else (bias, [])


def _hidden(at: Attended) -> Tensor:
    """Pairs (tq, tk) that causality hides."""
    own = at.q.shape[-2]
    return torch.ones(own, at.setting.length, dtype=torch.bool).triu(at.setting.length - own + 1)
