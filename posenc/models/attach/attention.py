"""The attention function that transformers calls by the name "posenc".

Letters: b batch, h heads, g key heads, tq queries, tk keys, d head dimension.
"""

from typing import Any

import torch
from torch import Tensor, nn

from posenc.attention import attend
from posenc.attention_parts import scores
from posenc.equation import sink_of, weights_of
from posenc.errors import UnsupportedError
from posenc.lowering import Lowered
from posenc.models.attach.mask import slots
from posenc.models.attach.sight import Plan, Sight
from posenc.positions import Positions, Tokens, as_positions
from posenc.terms import DenseBias, SinkLogit
from posenc.torch_modes import arithmetic

_PLAIN = Plan()
# A sink for each query (Inkling 2), and the keys that an indexer chose (DeepSeek-V3.2, MiniMax-M3).
_UNREAD = ("sinks", "indices", "block_indices")


def posenc_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | Sight | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **told: Any,
) -> tuple[Tensor, None]:
    """posenc.attend, for `transformers.AttentionInterface`: (b, h, tq, d) in, (b, tq, h, d) out.

    The mask is what `posenc_mask` returned, or a tensor that the user gave. Where there is none,
    the module says whether it is causal: a mask that nobody made lets nobody see the future.
    position_bias (1|b, 1|h, tq, tk) is what the code of T5 and its like made to add to the scores.
    Raises UnsupportedError for what else would change them.
    """
    if asked := [name for name in _UNREAD if told.get(name) is not None]:
        raise UnsupportedError(
            f"{type(module).__name__} hands {', '.join(asked)} to its attention, which posenc does "
            "not read, so that its scores would be others: give it attn_implementation='eager'"
        )
    plan: Plan = getattr(module, "posenc_plan", _PLAIN)
    given = plan.passes.given
    held = None if given.cache is None else given.cache.layers[module.layer_idx]
    keys = key.shape[2] if held is None else held.own.keys(key.shape[2])
    sight = _sight(module, query, key, keys, attention_mask, is_causal, given.before)
    softcap, sinks = told.get("softcap"), told.get("s_aux")
    if held is not None:
        if softcap is not None:
            raise UnsupportedError(
                f"{type(module).__name__} with posenc's caches: its scores are capped, which no "
                "encoding says; give a cache of transformers"
            )
        positions = held.told(sight, plan)
        parts = [*plan.parts, *sight.mask(), *([] if sinks is None else [SinkLogit(sinks)])]
        parts += [] if position_bias is None else [DenseBias(position_bias)]
        causal = sight.positions.causal
        out = attend(
            query,
            key,
            value,
            parts,
            causal=causal,
            positions=positions,
            cache=held.own,
            scale=scaling,
        )
        return out.transpose(1, 2).contiguous(), None
    dtype = arithmetic(query, key)
    lowered = sight.lowered(plan, dtype)
    if position_bias is not None:
        lowered = lowered.with_terms([*lowered.terms, DenseBias(position_bias)], dtype)
    if sinks is not None:
        lowered = lowered.with_sink(sinks)
    watch = getattr(module, "posenc_watch", None)
    if softcap is not None:
        out = _dense(query, key, value, lowered, sight, scaling, dropout, softcap)
    else:
        out = attend(query, key, value, lowered, scale=scaling, dropout=dropout)
    if watch is not None:
        watch(module.layer_idx, query, key, value, lowered, out, scaling)
    return out.transpose(1, 2).contiguous(), None


def _sight(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    keys: int,
    attention_mask: Tensor | Sight | None,
    is_causal: bool | None,
    before: int | Tensor | None,
) -> Sight:
    if isinstance(attention_mask, Sight):
        return attention_mask
    q_len, k_len = query.shape[2], key.shape[2]
    if attention_mask is not None:
        if before is None:
            positions = _last(q_len, k_len, query.device)
        else:
            # A static cache has slots behind the queries, and a window has dropped some before.
            dropped = before + q_len - k_len
            dropped = max(0, dropped) if isinstance(dropped, int) else dropped.clamp(min=0)
            positions = slots(q_len, k_len, before, dropped, query.device)
        # One row may stand for all queries.
        return Sight(positions, seen=attention_mask[..., :keys].expand(-1, -1, q_len, -1))
    causal = bool(getattr(module, "is_causal", False)) if is_causal is None else is_causal
    if causal:
        return Sight(as_positions(None, q_len, k_len, causal=True, device=query.device))
    return Sight(_last(q_len, k_len, query.device))


def _last(q_len: int, k_len: int, device: torch.device) -> Positions:
    """Queries as the last of the keys; of another sequence there may be more of them."""
    if q_len <= k_len:
        return as_positions(None, q_len, k_len, device=device)
    queries, keys = (Tokens(torch.arange(count, device=device)) for count in (q_len, k_len))
    return Positions(queries, keys)


def _dense(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lowered: Lowered,
    sight: Sight,
    scaling: float | None,
    dropout: float,
    softcap: float,
) -> Tensor:
    """With what no term says: scores capped before masks (Gemma 2).

        s = c tanh(scores / c) + numbers of a user's mask

    All pairs are held in memory, as in transformers' own "eager".
    """
    if sight.pairs is not None:
        # Behind the cap, which would make of the least number one that is seen.
        lowered = lowered.with_terms([x for x in lowered.terms if x is not sight.pairs])
    s = scores(query, key, lowered, scale=scaling)
    hidden = s == -torch.inf
    s = (softcap * torch.tanh(s / softcap)).masked_fill(hidden, -torch.inf)
    s = s if sight.pairs is None else s + sight.pairs.values
    p = weights_of(s, sink_of(lowered.terms))
    p = nn.functional.dropout(p, dropout, training=dropout > 0.0).to(value.dtype)
    return p @ value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)
