"""Hypotheses about what follows a rotation: scale, biases, masks and the order of key heads."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.analysis.diagnosis.bias_causes import BIASES, biasing
from posenc.analysis.diagnosis.computation import Computation, Edit
from posenc.analysis.diagnosis.hypotheses import Hypothesis
from posenc.encodings.temperature import Temperature
from posenc.equation import counted, mask_rules
from posenc.terms import (
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    Mask,
    Scale,
    Term,
    ValueTable,
    Window,
)

TABLES = (DistanceTable, GatherTable, ValueTable)
NAMES = {
    DistanceTable: "bias",
    GatherTable: "content term",
    CountTable: "counted term",
    ValueTable: "value table",
    Scale: "temperature",
    Mask: "mask of the encoding",
}


def attending(at: Computation) -> Iterator[Hypothesis]:
    """Everything that can be wrong around the scores and needs no number to be fitted."""
    if at.kind not in ("scores", "output"):
        return
    terms = at.lowered().terms
    yield from _scale(at)
    yield from _temperatures(at, terms)
    yield from biasing(at, terms)
    yield from _content_terms(at, terms)
    yield from _tables(at, terms)
    yield from _gates(at, terms)
    yield from _masks(at, terms)
    yield from _heads(at)


def _scale(at: Computation) -> Iterator[Hypothesis]:
    assert at.q is not None
    heads, width = at.q.shape[1], at.q.shape[-1]
    known = {
        1.0: "does not scale q . k",
        width**-0.5: "multiplies q . k by 1/sqrt(d)",
        1.0 / width: "multiplies q . k by 1/sqrt(d) twice, or by 1/d",
        (heads * width) ** -0.5: "takes 1/sqrt of the model's width for the scale of q . k",
        at.scale**2: f"scales by {at.scale:.6g} twice",
    }
    for scale, says in known.items():
        if abs(scale - at.scale) > 1e-9 * at.scale:
            says = f"{says}, ours by {at.scale:.6g}"
            yield Hypothesis("scale", says, replace(at, scale=scale))


def _temperatures(at: Computation, terms: tuple[Term, ...]) -> Iterator[Hypothesis]:
    cause = "size of the temperature"
    for which, _ in _groups(terms, (Scale,), ""):
        for power, says in ((-1.0, "divides by the temperature"), (2.0, "applies it twice")):

            def edit(term: Term, power: float = power) -> Term:
                return replace(term, factor=term.factor**power) if isinstance(term, Scale) else term

            yield Hypothesis(cause, says, at.edited(edit, which))
    for part in at.parts:
        if isinstance(part, Temperature) and part.kind == "log_n":
            assert part.original_length is not None
            position = at.positions.queries.position.double()
            growth = (position + 1).log() / math.log(part.original_length)
            changed = replace(
                at,
                parts=tuple(p for p in at.parts if p is not part),
                edits=(
                    *at.edits,
                    lambda terms, by=growth: (*terms, Scale(by.view(-1, 1, by.shape[-1]))),
                ),
            )
            yield Hypothesis(cause, "cools scores before the training length too", changed)


def _content_terms(at: Computation, terms: tuple[Term, ...]) -> Iterator[Hypothesis]:
    for kind, name in NAMES.items():
        for which, some in _groups(terms, (kind,), name):
            changed = at.edited(lambda _: None, which)
            yield Hypothesis(f"{name} missing", f"leaves {some} out", changed)
    if any(isinstance(term, GatherTable) for term in terms):
        says = "adds the terms of position after the scale of q . k, ours inside it"
        yield Hypothesis("scale placement", says, at.edited(_weighted(1 / at.scale)))
        says = "subtracts the terms of position"
        yield Hypothesis("sign of the content term", says, at.edited(_weighted(-1.0)))


def _tables(at: Computation, terms: tuple[Term, ...]) -> Iterator[Hypothesis]:
    for which, some in _groups(terms, TABLES, "table"):
        for step, way in ((1, "later"), (-1, "earlier")):
            says = f"reads {some} one row {way}, as if distances were off by one"
            changed = at.edited(lambda term, step=step: _row_off(term, step), which)
            yield Hypothesis("row of a table", says, changed)
        says = f"reads {some} at q - k where ours reads at k - q"
        yield Hypothesis("sign of the distance", says, at.edited(_reversed, which))
    for reach in range(1, min(at.positions.k_len, 256)) if _groups(terms, TABLES, "") else ():
        says = f"clamps distances at {reach}: its table ends there"
        changed = at.edited(lambda term, reach=reach: _narrowed(term, reach))
        yield Hypothesis("reach of a table", says, changed)


def _groups(
    terms: tuple[Term, ...], kinds: tuple[type, ...], name: str
) -> list[tuple[list[int], str]]:
    """The numbers of the terms of these kinds, all at once and then one by one, with a name."""
    found = [n for n, term in enumerate(terms) if isinstance(term, kinds)]
    if len(found) < 2:
        return [(found, f"the {name}")] if found else []
    each = [([n], f"{name} {i} of {len(found)}") for i, n in enumerate(found, start=1)]
    return [(found, f"every {name}"), *each]


def _weighted(factor: float) -> Edit:
    def edit(term: Term) -> Term:
        gathers = isinstance(term, GatherTable)
        return replace(term, weight=term.weight * factor) if gathers else term

    return edit


def _row_off(term: Term, step: int) -> Term:
    tabled = isinstance(term, TABLES)
    return replace(term, zero=term.zero + step, saturates=True) if tabled else term


def _rows(term: DistanceTable | GatherTable | ValueTable) -> tuple[str, Tensor, int]:
    """What holds one entry per distance: its name, itself and its axis."""
    if isinstance(term, DistanceTable):
        return "values", term.values, -1
    return ("weight", term.weight, -2) if term.row_of is None else ("row_of", term.row_of, 0)


def _reversed(term: Term) -> Term:
    if not isinstance(term, TABLES):
        return term
    name, rows, axis = _rows(term)
    changed: dict[str, Any] = {name: rows.flip(axis)}
    return replace(term, zero=rows.shape[axis] - 1 - term.zero, **changed)


def _narrowed(term: Term, reach: int) -> Term:
    if not isinstance(term, TABLES):
        return term
    name, rows, axis = _rows(term)
    first = max(term.zero - reach, 0)
    count = min(term.zero + reach + 1, rows.shape[axis]) - first
    kept: dict[str, Any] = {name: rows.narrow(axis, first, count)}
    return replace(term, zero=term.zero - first, saturates=True, **kept)


def _gates(at: Computation, terms: tuple[Term, ...]) -> Iterator[Hypothesis]:
    """Contextual counts of other gates than those of the scaled, visible content."""
    found = [term for term in terms if isinstance(term, CountTable)]
    if not found or at.q is None:
        return
    with_bias = at.edited(lambda term: None if isinstance(term, (CountTable, Mask)) else term)
    content = with_bias.edited(lambda term: None if isinstance(term, BIASES) else term)
    visible = at.positions.visible(mask_rules(terms))
    last = torch.full((at.positions.q_len,), at.positions.k_len, device=at.positions.device)
    queries = {"order": last, "document": None}
    keys = {"valid": None, "document": None}
    for says, gates, seen in (
        ("counts keys that are hidden", content, None),
        ("opens its gates by q . k without the scale", replace(content, scale=1.0), visible),
        ("opens its gates by scores with their biases", with_bias, visible),
    ):
        (s,) = replace(gates.placed(queries, keys), kind="scores").results()
        bias = DenseBias(counted(found[0], at.q.to(s.dtype), s, seen))
        changed = at.edited(lambda term, bias=bias: bias if isinstance(term, CountTable) else term)
        yield Hypothesis("gates of the count", says, found=changed.results())


def _masks(at: Computation, terms: tuple[Term, ...]) -> Iterator[Hypothesis]:
    positions, kind = at.positions, "causal mask"
    says = "has no causal mask" if positions.causal else "has a causal mask, ours none"
    yield Hypothesis(kind, says, at.placed(causal=not positions.causal))
    if positions.causal and positions.q_len <= positions.k_len:
        q_order = positions.orders()[0]
        says = "lets each query see the next key too: its causal mask is off by one"
        yield Hypothesis(kind, says, at.placed({"order": q_order + 1}))
        says = "does not let a query see its own key: its causal mask is off by one"
        yield Hypothesis(kind, says, at.placed({"order": q_order - 1}))
        if positions.q_len < positions.k_len:
            says = "aligns the causal mask at the first key, ours at the last"
            first = torch.arange(positions.q_len, device=positions.device)
            yield Hypothesis(kind, says, at.placed({"order": first}))
        q, k = positions.queries.position, positions.keys.position
        if k.ndim < 3 and not k.is_floating_point():
            says = "hides keys of a greater position, ours those that come later"
            changed = at.placed({"order": q}, {"order": k})
            yield Hypothesis(kind, says, changed)
    valid = positions.keys.valid
    if valid is not None:
        changed = at.placed(keys={"valid": None})
        yield Hypothesis("padding", "lets queries see padding", changed)
        says = "hides the tokens and shows the padding: its mask means the opposite"
        yield Hypothesis("padding", says, at.placed(keys={"valid": ~valid}))
    if positions.queries.document is not None:
        changed = at.placed({"document": None}, {"document": None})
        yield Hypothesis("documents", "lets tokens see other documents of the row", changed)
    if any(isinstance(term, Mask) and isinstance(term.rule, Window) for term in terms):
        for step, way in ((1, "wider"), (-1, "narrower")):
            changed = at.edited(lambda term, step=step: _wider(term, step))
            says = f"has a window one token {way}"
            yield Hypothesis("width of the window", says, changed)


def _wider(term: Term, step: int) -> Term:
    if isinstance(term, Mask) and isinstance(term.rule, Window):
        return replace(term, rule=Window(max(term.rule.width + step, 1)))
    return term


def _heads(at: Computation) -> Iterator[Hypothesis]:
    if at.q is None or at.k is None:
        return
    repeats = at.q.shape[1] // at.k.shape[1]
    if 1 < repeats < at.q.shape[1]:
        k, v = (None if x is None else x.repeat(1, repeats, 1, 1) for x in (at.k, at.v))
        says = "tiles key heads: query head i reads key head i mod g, ours i // (h / g)"
        yield Hypothesis("key heads tiled", says, replace(at, k=k, v=v))
        if at.v is not None:
            own_k, own_v = (x.repeat_interleave(repeats, 1) for x in (at.k, at.v))
            says = "tiles value heads, and repeats key heads as ours"
            yield Hypothesis("value heads tiled", says, replace(at, k=own_k, v=v))
            says = "tiles key heads, and repeats value heads as ours"
            yield Hypothesis("key heads tiled", says, replace(at, k=k, v=own_v))
    if at.q.shape == at.k.shape:
        changed = replace(at, q=at.k, k=at.q)
        yield Hypothesis("q and k swapped", "takes q for k and k for q", changed)
