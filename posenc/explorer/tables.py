"""Encodings as tables: what the page shows of one that has no JavaScript of its own.

bundle.write(path, members=tables([kind]))
"""

import base64
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from posenc.analysis import measure
from posenc.analysis.probe_context import context_of_one_token
from posenc.encoding import Encoding
from posenc.lowering import embeds_only, lower
from posenc.mask_rules import Window
from posenc.positions import Positions
from posenc.terms import DistanceTable, Mask, Rotate, Slope, Term

# So many positions, or distances, on each side, and so many dimensions where an encoding fits any.
REACH, DIM = 96, 16
# What remains of a score below this is the rounding of float64.
ROUNDING = 1e-12


def tables(kinds: Iterable[type[Encoding]]) -> dict[str, dict[str, Any]]:
    """The tables of several encodings, by name, without those that a table cannot tell."""
    told = {named(kind): table(kind) for kind in kinds}
    return {name: one for name, one in told.items() if one is not None}


def table(kind: type[Encoding], reach: int = REACH) -> dict[str, Any] | None:
    """The first example of an encoding, for data/members.js: its vectors, or angles and scores.

    An encoding that changes the embeddings is its rows. Of any other, `added` is what position adds
    to the score of q = k = ones at each distance, for the last query of the past and for the first
    one of the future, beyond what its `angles` make of q and k. `exact` says whether that holds for
    all q and k. Parameters hold the numbers of fixed.js. None where `added` differs between two
    pairs at one distance. Raises what the encoding raises.
    """
    encoding = filled(next(iter(kind.examples())))
    told = {
        "kind": kind.__name__,
        "family": encoding.family,
        "label": named(kind).replace("_", " "),
        "python": construction(kind),
        "trained": any(True for _ in encoding.parameters()),
        "causal": encoding.tags.causal_only,
        "reach": min(reach, getattr(encoding, "max_length", None) or reach),
    }
    found = (embedded if embeds_only(encoding) else attended)(encoding, told["reach"])
    return None if found is None else told | found


def named(kind: type[Encoding]) -> str:
    return kind.name or kind.__name__


def construction(kind: type[Encoding]) -> str:
    """Python that makes the first example, after `import posenc as pe`."""
    name = kind.__name__
    if kind.__module__.startswith("posenc."):
        return f"encoding = next(iter(pe.{name}.examples())).double()"
    return (
        f"from {kind.__module__} import {name}\nencoding = next(iter({name}.examples())).double()"
    )


def embedded(encoding: Encoding, reach: int) -> dict[str, Any]:
    rows = measure.position_table(encoding, reach)
    merge = getattr(encoding, "merge", "add")
    return {"merge": merge, "columns": rows.shape[1], "vectors": packed(rows), "exact": True}


def attended(encoding: Encoding, reach: int) -> dict[str, Any] | None:
    heads, dim = encoding.heads or 1, encoding.head_dim or DIM
    scale, ones = dim**-0.5, torch.ones(heads, dim, dtype=torch.float64)
    scores = measure.token_scores(encoding, reach, ones, ones, scale=scale)
    terms = lower(
        encoding,
        Positions.build(reach, causal=encoding.tags.causal_only),
        context=context_of_one_token(encoding, reach),
        dtype=torch.float64,
    ).terms
    turning = [term for term in terms if isinstance(term, Rotate) and simple(term)]
    told: dict[str, Any] = {"heads": heads, "dim": dim, "exact": exact(encoding, terms)}
    content = torch.full((1, reach, reach), dim * scale, dtype=torch.float64)
    for term in turning:
        angles = term.q_angle[0]
        turned = (angles[:, :, None] - angles[:, None]).cos() - 1
        content = content + 2 * scale * (term.gain**2 * (turned + 1) - 1).sum(-1)
        told |= {"layout": term.layout, "gain": term.gain}
        told |= {"turningHeads": len(angles), "pairs": angles.shape[-1], "angles": packed(angles)}
    added = scores - content
    shifted = added[:, 1:, 1:], added[:, :-1, :-1]
    if not torch.allclose(*shifted, rtol=0, atol=ROUNDING):
        return None
    if not bool((added.abs() <= ROUNDING).all()):
        # By distance k - q: -reach + 1 .. reach - 1.
        told["added"] = packed(torch.cat((added[:, -1], added[:, 0, 1:]), dim=-1))
    return told


def simple(term: Rotate) -> bool:
    """Whether angles, of q and k alike, and a gain are all that it turns by."""
    alike = term.k_angle is not None and torch.equal(term.q_angle, term.k_angle)
    return term.start == 0 and alike and term.q_log_scale is None


def exact(encoding: Encoding, terms: tuple[Term, ...]) -> bool:
    """Whether angles, and a number per distance, are all that it says."""
    return not encoding.tags.needs_context and all(map(explained, terms))


def explained(term: Term) -> bool:
    if isinstance(term, Rotate):
        return simple(term)
    if isinstance(term, Mask):
        return isinstance(term.rule, Window)
    return isinstance(term, (DistanceTable, Slope)) and not term.inside


def filled(encoding: Encoding, amplitude: float = 0.5) -> Encoding:
    """The encoding in float64, with the numbers of fixed.js in each parameter of several."""
    start = 0
    for parameter in encoding.double().parameters():
        if parameter.ndim:
            parameter.data = fixed(*parameter.shape, start=start, amplitude=amplitude)
            start += parameter.numel()
    return encoding


def fixed(*shape: int, start: int = 0, amplitude: float = 0.5) -> Tensor:
    """amplitude * sin(n**2) for n = start + 1, start + 2, ...: spread like noise."""
    n = torch.arange(start + 1, start + math.prod(shape) + 1, dtype=torch.float64)
    return (amplitude * (n * n).sin()).view(shape)


def packed(numbers: Tensor) -> str:
    """Little-endian float64 in base64, which is a third of their digits."""
    return base64.b64encode(numbers.detach().contiguous().numpy().astype("<f8").tobytes()).decode()
