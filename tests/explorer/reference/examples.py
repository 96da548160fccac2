"""Every example of every encoding: scores and embeddings, lowered angles and biases.

Parameters hold fixed numbers that JavaScript makes too, so that no weights are stored.
"""

import math
from typing import Any

import torch

import posenc
from posenc.analysis.probe_context import sizes_for
from posenc.encoding import Context, Encoding
from posenc.equation import distance_bias, network_bias
from posenc.explorer.bundle import without_javascript
from posenc.explorer.tables import filled, fixed
from posenc.lowering import embeds_only, lower
from posenc.positions import Positions
from posenc.terms import DistanceTable, Network, Rotate, Slope
from tests.explorer.reference.numbers import SCALINGS, numbers, settings_of

LENGTH, QUERY, SCALE = 28, 19, 0.3


def encodings() -> dict[str, Any]:
    """Every example of every encoding that has JavaScript."""
    tabulated = without_javascript()
    every = posenc.encodings().items()
    members = {name: kind for name, kind in every if kind.__name__ not in tabulated}
    made = [made for kind in members.values() for made in kind.examples()]
    # The page has no JavaScript of the scalings that are not named there.
    known = [
        x for x in made if type(x.settings().get("scaling")).__name__ in (*SCALINGS, "NoneType")
    ]
    examples = [example(filled(one)) for one in known]
    return {
        "names": sorted(members),
        "length": LENGTH,
        "query": QUERY,
        "scale": SCALE,
        "examples": examples,
    }


def example(encoding: Encoding) -> dict[str, Any]:
    head = {
        "name": encoding.name,
        "kind": type(encoding).__name__,
        "family": encoding.family,
        "settings": settings_of(encoding),
    }
    return head | (embedded(encoding) if embeds_only(encoding) else attended(encoding))


def embedded(encoding: Encoding) -> dict[str, Any]:
    """One token at several positions."""
    reach = getattr(encoding, "max_length", math.inf)
    if encoding.name == "binary":
        reach = 2.0 ** encoding.settings()["dim"]
    at = [p for p in (0, 1, 2, 5, 13, 23, 1000, 123_456) if p < reach]
    width = encoding.model_dim or 5
    x = fixed(width, start=30_000).expand(1, len(at), -1)
    found = encoding.embed(x, Positions.build(ids=torch.tensor(at)))
    return {"width": width, "positions": at, "embedded": numbers(found[0])}


def attended(encoding: Encoding) -> dict[str, Any]:
    """One query among other tokens, for the first and the last head: scores, and lowered terms."""
    sizes = sizes_for(encoding)
    causal = encoding.tags.causal_only
    at = Positions.build(LENGTH, causal=causal)
    context, told = context_of(encoding)
    q = fixed(sizes.heads, sizes.head_dim, start=10_000)
    k = fixed(sizes.heads, LENGTH, sizes.head_dim, start=20_000)
    scores = posenc.scores(
        q[None, :, None].expand(-1, -1, LENGTH, -1),
        k[None],
        encoding,
        positions=at,
        scale=SCALE,
        context=context,
    )
    found = {
        "heads": sizes.heads,
        "dim": sizes.head_dim,
        "causal": causal,
        "scores": numbers(scores[0, [0, -1], QUERY]),
    }
    for term in lower(encoding, at, context=context, dtype=torch.float64).terms:
        if isinstance(term, Rotate) and term.q_log_scale is None:
            found["angles"] = numbers(term.q_angle[0, [0, -1], QUERY])
            found["gain"] = term.gain
        elif isinstance(term, (DistanceTable, Slope)):
            found["bias"] = numbers(distance_bias(term, at, torch.float64)[0, [0, -1], QUERY])
        elif isinstance(term, Network):
            found["bias"] = numbers(network_bias(term, at, torch.float64)[0, [0, -1], QUERY])
    return found | told


def context_of(encoding: Encoding) -> tuple[Context | None, dict[str, Any]]:
    """What the layer gives an encoding, and what to tell JavaScript of it."""
    if not encoding.tags.needs_context:
        return None, {}
    sizes = sizes_for(encoding)
    if encoding.name == "forget_gate":
        width = sizes.model_dim
        return Context(fixed(1, LENGTH, width, start=80_000)), {"inputs": width}
    shape = (sizes.heads, sizes.model_dim, sizes.head_dim)
    to_q, to_k = fixed(*shape, start=40_000), fixed(*shape, start=60_000)
    told = {"heads": sizes.heads, "dim": sizes.model_dim, "width": sizes.head_dim}
    context = Context(None, None, lambda rows: rows @ to_q, lambda rows: rows @ to_k)
    return context, {"layer": told}
