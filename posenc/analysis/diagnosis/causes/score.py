"""What can be wrong after a rotation: scale, content terms, tables, masks, the order of heads."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.analysis.diagnosis.causes.bias import BIASES, bias
from posenc.analysis.diagnosis.computation import Computation, Edit
from posenc.analysis.diagnosis.hypotheses import Rows
from posenc.encodings.temperature import Temperature
from posenc.equation import counted, mask_rules
from posenc.mask_rules import Window
from posenc.terms import (
    ChunkZones,
    CountTable,
    DenseBias,
    DistanceTable,
    GatherTable,
    Mask,
    Scale,
    Term,
    ValueTable,
    Zones,
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


def score(ours: Computation) -> Rows:
    """Everything that can be wrong around the scores and needs no number to be fitted."""
    if ours.kind not in ("scores", "output"):
        return
    for rows in (_scale, _temperatures, bias, _content_terms, _tables, _gates, _masks, _heads):
        yield from rows(ours)


def _scale(ours: Computation) -> Rows:
    heads, width = ours.q.shape[1], ours.q.shape[-1]
    known = {
        1.0: "does not scale q . k",
        width**-0.5: "multiplies q . k by 1/sqrt(d)",
        1.0 / width: "multiplies q . k by 1/sqrt(d) twice, or by 1/d",
        (heads * width) ** -0.5: "takes 1/sqrt of the model's width for the scale of q . k",
        ours.scale**2: f"scales by {ours.scale:.6g} twice",
    }
    for scale, says in known.items():
        if abs(scale - ours.scale) > 1e-9 * ours.scale:
            yield "scale", f"{says}, ours by {ours.scale:.6g}", replace(ours, scale=scale)


def _temperatures(ours: Computation) -> Rows:
    cause = "size of the temperature"
    for which, _ in _groups(ours, "", Scale):
        for power, says in ((-1.0, "divides by the temperature"), (2.0, "applies it twice")):
            changed = ours.edited(lambda t, p=power: replace(t, factor=t.factor**p), which=which)
            yield cause, says, changed
    for part in ours.parts:
        if isinstance(part, Temperature) and part.kind == "log_n":
            assert part.original_length is not None
            position = ours.positions.queries.position.double()
            growth = (position + 1).log() / math.log(part.original_length)
            warmer = Scale(growth.view(-1, 1, growth.shape[-1]))
            parts = tuple(p for p in ours.parts if p is not part)
            edits = (*ours.edits, lambda terms, warmer=warmer: (*terms, warmer))
            changed = replace(ours, parts=parts, edits=edits)
            yield cause, "cools scores before the training length too", changed


def _content_terms(ours: Computation) -> Rows:
    for kind, name in NAMES.items():
        for which, some in _groups(ours, name, kind):
            leaves = f"leaves {some} out"
            yield f"{name} missing", leaves, ours.edited(lambda _: None, which=which)
    if ours.has(GatherTable):
        after = "adds the terms of position after the scale of q . k, ours inside it"
        for cause, says, by in (
            ("scale placement", after, 1 / ours.scale),
            ("sign of the content term", "subtracts the terms of position", -1.0),
        ):
            changed = ours.edited(lambda t, x=by: replace(t, weight=t.weight * x), GatherTable)
            yield cause, says, changed


def _tables(ours: Computation) -> Rows:
    for which, some in _groups(ours, "table", *TABLES):
        for step, way in ((1, "later"), (-1, "earlier")):
            says = f"reads {some} one row {way}, as if distances were off by one"
            yield "row of a table", says, ours.edited(_moved(step), which=which)
        says = f"reads {some} at q - k where ours reads at k - q"
        yield "sign of the distance", says, ours.edited(_reversed, which=which)
    for reach in range(1, min(ours.positions.k_len, 256)) if ours.has(*TABLES) else ():
        says = f"clamps distances at {reach}: its table ends there"
        changed = ours.edited(lambda term, n=reach: _narrowed(term, n), *TABLES)
        yield "reach of a table", says, changed
    if ours.has(Zones):
        says = "turns tokens far away by the angles of those nearby: it has one zone"
        changed = ours.edited(lambda term: replace(term, far=term.near), Zones)
        yield "far zone missing", says, changed
    if ours.has(ChunkZones):
        says = "turns queries before keys of other chunks as before those of their own"
        changed = ours.edited(_in_one_chunk, ChunkZones)
        yield "far zone missing", says, changed


def _in_one_chunk(term: ChunkZones) -> ChunkZones:
    own = replace(term.same, k_angle=None)
    return replace(term, next=own, beyond=own)


def _groups(ours: Computation, name: str, *kinds: type) -> Iterator[tuple[list[int], str]]:
    """The numbers of the terms of these kinds, all at once and then one by one, with a name."""
    numbers = [n for n, term in enumerate(ours.terms) if isinstance(term, kinds)]
    if numbers:
        yield numbers, f"every {name}" if len(numbers) > 1 else f"the {name}"
    for i, n in enumerate(numbers if len(numbers) > 1 else [], start=1):
        yield [n], f"{name} {i} of {len(numbers)}"


def _rows(term: DistanceTable | GatherTable | ValueTable) -> tuple[str, Tensor, int]:
    """What holds one entry per distance: its name, itself and its axis."""
    if isinstance(term, DistanceTable):
        return "values", term.values, -1
    return ("weight", term.weight, -2) if term.row_of is None else ("row_of", term.row_of, 0)


def _moved(step: int) -> Edit:
    return lambda term: replace(term, zero=term.zero + step, saturates=True)


def _reversed(term: Any) -> Term:
    name, rows, axis = _rows(term)
    return replace(term, zero=rows.shape[axis] - 1 - term.zero, **{name: rows.flip(axis)})


def _narrowed(term: Any, reach: int) -> Term:
    name, rows, axis = _rows(term)
    first = max(term.zero - reach, 0)
    count = min(term.zero + reach + 1, rows.shape[axis]) - first
    kept = {name: rows.narrow(axis, first, count)}
    return replace(term, zero=term.zero - first, saturates=True, **kept)


def _gates(ours: Computation) -> Rows:
    """Contextual counts of other gates than those of the scaled, visible content."""
    table = next((term for term in ours.terms if isinstance(term, CountTable)), None)
    if table is None:
        return
    with_bias = ours.edited(lambda _: None, CountTable, Mask)
    content = with_bias.edited(lambda _: None, *BIASES)
    visible = ours.positions.visible(mask_rules(ours.terms))
    last = torch.full((ours.positions.q_len,), ours.positions.k_len, device=ours.q.device)
    queries = {"order": last, "document": None}
    keys = {"valid": None, "document": None}
    for says, gates, seen in (
        ("counts keys that are hidden", content, None),
        ("opens its gates by q . k without the scale", replace(content, scale=1.0), visible),
        ("opens its gates by scores with their biases", with_bias, visible),
    ):
        (s,) = replace(gates.placed(queries, keys), kind="scores").results()
        added = DenseBias(counted(table, ours.q.to(s.dtype), s, seen))
        changed = ours.edited(lambda _, added=added: added, CountTable)
        yield "gates of the count", says, changed.results()


def _masks(ours: Computation) -> Rows:
    positions, cause = ours.positions, "causal mask"
    says = "has no causal mask" if positions.causal else "has a causal mask, ours none"
    yield cause, says, ours.placed(causal=not positions.causal)
    if positions.causal and positions.q_len <= positions.k_len:
        q_order = positions.orders()[0]
        says = "lets each query see the next key too: its causal mask is off by one"
        yield cause, says, ours.placed({"order": q_order + 1})
        says = "does not let a query see its own key: its causal mask is off by one"
        yield cause, says, ours.placed({"order": q_order - 1})
        if positions.q_len < positions.k_len:
            says = "aligns the causal mask at the first key, ours at the last"
            first = torch.arange(positions.q_len, device=positions.device)
            yield cause, says, ours.placed({"order": first})
        q, k = positions.queries.position, positions.keys.position
        if k.ndim < 3 and not k.is_floating_point():
            says = "hides keys of a greater position, ours those that come later"
            yield cause, says, ours.placed({"order": q}, {"order": k})
    valid = positions.keys.valid
    if valid is not None:
        seen = ours.placed(keys={"valid": None})
        yield "padding", "lets queries see padding", seen
        # As where tensors are cleared, so that NaN in padding spreads no further.
        padding = ~valid[:, None, :, None]
        k, v = (x.masked_fill(padding, 0.0) for x in (ours.k, ours.v))
        says = "lets queries see padding, whose keys and values are zero"
        yield "padding", says, replace(seen, k=k, v=v)
        says = "hides the tokens and shows the padding: its mask means the opposite"
        yield "padding", says, ours.placed(keys={"valid": ~valid})
    if positions.queries.document is not None:
        changed = ours.placed({"document": None}, {"document": None})
        yield "documents", "lets tokens see other documents of the row", changed
    if any(isinstance(term, Mask) and isinstance(term.rule, Window) for term in ours.terms):
        for step, way in ((1, "wider"), (-1, "narrower")):
            changed = ours.edited(_wider(step), Mask)
            yield "width of the window", f"has a window one token {way}", changed


def _wider(step: int) -> Edit:
    def edit(term: Mask) -> Term:
        rule = term.rule
        return Mask(Window(max(rule.width + step, 1))) if isinstance(rule, Window) else term

    return edit


def _heads(ours: Computation) -> Rows:
    repeats = ours.q.shape[1] // ours.k.shape[1]
    if 1 < repeats < ours.q.shape[1]:
        k, v = (x.repeat(1, repeats, 1, 1) for x in (ours.k, ours.v))
        says = "tiles key heads: query head i reads key head i mod g, ours i // (h / g)"
        yield "key heads tiled", says, replace(ours, k=k, v=v)
        if ours.kind == "output":
            own_k, own_v = (x.repeat_interleave(repeats, 1) for x in (ours.k, ours.v))
            says = "tiles value heads, and repeats key heads as ours"
            yield "value heads tiled", says, replace(ours, k=own_k, v=v)
            says = "tiles key heads, and repeats value heads as ours"
            yield "key heads tiled", says, replace(ours, k=k, v=own_v)
    if ours.q.shape == ours.k.shape:
        yield "q and k swapped", "takes q for k and k for q", replace(ours, q=ours.k, k=ours.q)
