"""What one layer does with positions, as data."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from posenc.analysis.decompose import decompose
from posenc.analysis.inspect.attention_use import AttentionUse
from posenc.analysis.inspect.pair_norms import pair_norms
from posenc.analysis.inspect.score_split import score_split
from posenc.analysis.inspect.text_exchange import TextExchange
from posenc.attention_parts import scores
from posenc.equation import sink_of, weights_of
from posenc.errors import PosencError
from posenc.inspection.numbers import as_json, as_lists
from posenc.models.collect import LayerCall
from posenc.terms import Rotate

# Where weights times values are further from what the layer gave, its code does more to scores.
REBUILT = 1e-3


def layer_data(call: LayerCall, exchanged: slice) -> dict[str, Any]:
    """The numbers of one layer; a part that cannot be told is None, and `notes` say why."""
    data: dict[str, Any] = {
        "layer": call.layer,
        "encoding": ", ".join(map(repr, call.encodings)) or None,
        "heads": call.q.shape[1],
        "key_heads": call.k.shape[1],
        "causal": call.spec.causal,
        "window": call.spec.window,
        "notes": [],
    }
    return (
        data
        | _of_texts(call, exchanged, data["notes"])
        | _split(call, data["notes"])
        | _pairs(call)
    )


def _of_texts(call: LayerCall, exchanged: slice, notes: list[str]) -> dict[str, Any]:
    """What is read off the scores, text by text: one text's are held at a time."""
    uses, exchange, off, parts = [], TextExchange(), 0.0, []
    for rows, s in _scores(call):
        weights = weights_of(s, sink_of(call.lowered.terms))
        v = call.v[rows].repeat_interleave(call.q.shape[1] // call.v.shape[1], dim=1)
        off = max(off, (weights @ v - call.out[rows]).abs().max().item())
        found = decompose(call.q[rows], call.k[rows], call.lowered, scale=call.scale)
        parts.append(found.share())
        for of_text, p in zip(s, weights, strict=True):
            uses.append(AttentionUse.of(p))
            exchange.add(of_text[:, exchanged, exchanged])
    data: dict[str, Any] = {
        "stays": as_lists(exchange.result()) if exchange.count > 1 else None,
        "parts": {
            name: as_json(torch.stack([share[name] for share in parts]).mean(dim=0))
            for name in parts[0]
        },
        "attention": None,
    }
    if off > REBUILT * call.out.abs().max().item():
        notes.append("its attention is not softmax of these scores alone (capped scores)")
    else:
        use = AttentionUse.mean(uses)
        data["attention"] = as_lists(use) | {
            "distance": as_json(use.distance),
            "reach": as_json(use.reach),
            "mass": as_json(use.mass.mean(dim=0)),
        }
    return data


def _scores(call: LayerCall) -> Iterator[tuple[slice, Tensor]]:
    """Scores of one text after the other, of all where each has terms of its own."""
    count = call.q.shape[0]
    tensors = [x for t in call.lowered.terms for x in vars(t).values() if isinstance(x, Tensor)]
    apart = all(x.ndim < 4 or x.shape[0] == 1 for x in tensors)
    for rows in [slice(n, n + 1) for n in range(count)] if apart else [slice(count)]:
        yield rows, scores(call.q[rows], call.k[rows], call.lowered, scale=call.scale)


def _split(call: LayerCall, notes: list[str]) -> dict[str, Any]:
    if not call.encodings:
        return {"split": None}
    t = call.q.shape[2]
    window = min(call.spec.window or t, t)
    distances = range(1 - window, 1 if call.spec.causal else window)
    parts, scale = list(call.encodings), call.scale
    try:
        found = score_split(call.q[0], call.k[0], parts, distances, scale=scale)
    except PosencError as error:
        notes.append(f"its scores were not split: {error}")
        return {"split": None}
    return {"split": as_lists(found)}


def _pairs(call: LayerCall) -> dict[str, Any]:
    rotation = next((x for x in call.lowered.terms if isinstance(x, Rotate)), None)
    return {"pairs": as_lists(pair_norms(call.q, call.k, rotation)) if rotation else None}
