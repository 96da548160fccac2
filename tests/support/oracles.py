"""The equation once more, as plain loops over Python floats: what the fast code is compared with.

Written from the docstrings of `posenc.terms` and from DESIGN.md; nothing broadcasts, and nothing
is shared with the library but its data classes. Letters: b batch, h query head, i query, j key.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from posenc import terms as t
from posenc.mask_rules import Chunk, MaskRule, Prefix, Sink, Window
from tests.support.turned import (
    dot,
    entry,
    multiplied,
    polar_dot,
    reflected,
    turned_dot,
    turned_value,
)

Rows = list[list[Any]]


def drawing(seed: int = 0) -> Callable[..., Tensor]:
    """A function that draws float64 normal numbers of a shape, the same ones in every run."""
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(shape, generator=generator, dtype=torch.float64)


@dataclass(frozen=True)
class Scene:
    """Where the tokens are, as lists [b][token]: what a Positions must say, found by counting."""

    q_at: Rows
    k_at: Rows
    q_order: Rows
    k_order: Rows
    q_document: Rows
    k_document: Rows
    q_valid: Rows
    k_valid: Rows
    causal: bool


def scene(
    batch: int,
    q_len: int,
    k_len: int,
    *,
    causal: bool = False,
    mask: Rows | None = None,
    documents: Rows | None = None,
    ids: Rows | None = None,
) -> Scene:
    """Count the tokens of each document, padding aside; the queries are the last q_len keys."""
    valid = [[mask is None or bool(mask[b][j]) for j in range(k_len)] for b in range(batch)]
    document = [[documents[b][j] if documents else 0 for j in range(k_len)] for b in range(batch)]
    order: Rows = []
    for b in range(batch):
        seen: dict[int, int] = {}
        order.append([])
        for j in range(k_len):
            before = seen.get(document[b][j], 0)
            order[b].append(before)
            seen[document[b][j]] = before + valid[b][j]
    at = order if ids is None else ids
    if mask is None and documents is None:
        order = [list(range(k_len)) for _ in range(batch)]
    last = k_len - q_len
    queries = [[row[last:] for row in rows] for rows in (at, order, document, valid)]
    return Scene(queries[0], at, queries[1], order, queries[2], document, queries[3], valid, causal)


def visible(where: Scene, rules: Sequence[MaskRule], b: int, i: int, j: int) -> bool:
    """Valid, of one document and chunk, not later unless in the prefix, and near unless a sink."""
    q, k = where.q_order[b][i], where.k_order[b][j]
    widths = [rule.width for rule in rules if isinstance(rule, Window)]
    chunks = [rule.width for rule in rules if isinstance(rule, Chunk)]
    in_prefix = any(isinstance(rule, Prefix) and k < rule.count for rule in rules)
    is_sink = any(isinstance(rule, Sink) and k < rule.count for rule in rules)
    return (
        where.k_valid[b][j]
        and where.q_document[b][i] == where.k_document[b][j]
        and (not where.causal or k <= q or in_prefix)
        and (not widths or abs(k - q) < min(widths) or is_sink)
        and all(math.floor(k / c) == math.floor(q / c) for c in chunks)
    )


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def clamped(index: int, size: int, saturates: bool) -> int:
    if saturates:
        return max(0, min(size - 1, index))
    assert 0 <= index < size, "a visible distance is not in the table"
    return index


def row_of(term: Any, distance: int) -> int:
    if isinstance(term, t.DistanceTable):
        return clamped(distance + term.zero, term.values.shape[-1], term.saturates)
    if term.row_of is None:
        return clamped(distance + term.zero, term.weight.shape[-2], term.saturates)
    rows = term.row_of.tolist()
    return rows[clamped(distance + term.zero, len(rows), term.saturates)]


def transformed(
    terms: Sequence[t.Term], x: list[float], side: str, b: int, h: int, token: int
) -> list[float]:
    """A query or a key as everything else reads it."""
    for term in terms:
        if isinstance(term, t.Transform):
            x = multiplied(entry(getattr(term, side).tolist(), b, h, token), x)
    return x


def content(
    terms: Sequence[t.Term], q: list[float], k: list[float], at: Scene, w: tuple[int, ...]
) -> float:
    """turn(q) . turn(k) + GatherTables + whatever is marked inside."""
    b, h, i, j = w
    total, distance = None, at.k_at[b][j] - at.q_at[b][i]
    for term in terms:
        if isinstance(term, t.Rotate):
            total = turned_dot(term, q, k, w)
        if isinstance(term, t.Zones):
            near = at.q_order[b][i] - at.k_order[b][j] < term.width
            total = turned_dot(term.near if near else term.far, q, k, w)
        if isinstance(term, t.ChunkZones):
            ahead = at.q_at[b][i] // term.width - at.k_at[b][j] // term.width
            turn = term.same if ahead < 1 else term.next if ahead == 1 else term.beyond
            total = turned_dot(replace(turn, k_angle=term.same.k_angle), q, k, w)
        if isinstance(term, t.Householder):
            own = len(at.k_at[b]) - len(at.q_at[b]) + i
            total = dot(q, reflected(term, k, range(j + 1, own + 1), b, h))
        if isinstance(term, t.Polar):
            total = polar_dot(term, q, k, w)
    total = dot(q, k) if total is None else total
    for term in terms:
        if isinstance(term, t.GatherTable):
            if term.own is not None:
                continue
            x = q if term.side == "q" else k
            if term.bias is not None:
                x = [
                    value + add for value, add in zip(x, entry(term.bias.tolist(), h), strict=True)
                ]
            total += dot(x, entry(term.weight.tolist(), h)[row_of(term, distance)])
    return total + biases(terms, distance, h, inside=True)


def biases(terms: Sequence[t.Term], distance: float, h: int, inside: bool) -> float:
    """What tables and slopes add at a distance."""
    total = 0.0
    for term in terms:
        if isinstance(term, t.DistanceTable) and term.inside == inside:
            total += entry(term.values.tolist(), h)[row_of(term, distance)]
        if isinstance(term, t.Slope) and term.inside == inside:
            slopes = term.past if distance <= 0 or term.future is None else term.future
            total -= slopes[h].item() * abs(distance)
    return total


def grown(terms: Sequence[t.Term], b: int, h: int, i: int) -> float:
    """The product of Scale."""
    factor = 1.0
    for term in terms:
        if isinstance(term, t.Scale):
            given = term.factor
            many = isinstance(given, Tensor)
            factor *= entry(given.tolist(), b, h)[i] if many else given
    return factor


def network(term: t.Network, distance: int, b: int, h: int, i: int) -> float:
    """What a network adds, unit by unit."""
    x = term.by_distance[abs(distance)].item() * entry(term.by_query.tolist(), b)[i]
    total = entry(term.output_bias.tolist(), h)
    for unit, weight in enumerate(entry(term.output_weight.tolist(), h)):
        hidden = term.hidden_weight[unit].item() * x + term.hidden_bias[unit].item()
        total += weight * max(hidden, 0.0)
    return total


def outside(terms: Sequence[t.Term], distance: float, w: tuple[int, ...]) -> float:
    b, h, i, j = w
    total = biases(terms, distance, h, inside=False)
    for term in terms:
        if isinstance(term, t.Offset):
            total += entry(term.q.tolist(), b)[h][i] + entry(term.k.tolist(), b)[h][j]
        if isinstance(term, t.GatherTable) and term.own is not None:
            told = entry(term.own.tolist(), b)[h][i]
            row = entry(term.weight.tolist(), h)[row_of(term, distance)]
            total += grown(terms, b, h, i) * dot(told, row)
        if isinstance(term, t.Network):
            total += network(term, int(distance), b, h, i)
        if isinstance(term, t.GridTable):
            step = entry(term.k_index.tolist(), b)[j] - entry(term.q_index.tolist(), b)[i]
            total += entry(term.values.tolist(), h)[step + term.zero]
        if isinstance(term, t.DenseBias):
            total += entry(term.values.tolist(), b, h)[i][j]
    return total


def counted(term: t.CountTable, q: list[float], h: int, after: list[float]) -> float:
    """q . weight at the number of open gates, between two rows by how far it is from each."""
    rows = entry(term.weight.tolist(), h)
    count = min(math.fsum(sigmoid(s) for s in after), len(rows) - 1)
    low, high = dot(q, rows[math.floor(count)]), dot(q, rows[math.ceil(count)])
    return low + (count - math.floor(count)) * (high - low)


def scores(
    q: Tensor, k: Tensor, terms: Sequence[t.Term], at: Scene, scale: float | None = None
) -> Tensor:
    """Scores of every pair, -inf where not visible."""
    batch, heads, q_len, _ = q.shape
    per_key_head, k_len = heads // k.shape[1], k.shape[2]
    q_rows, k_rows = q.double().tolist(), k.double().tolist()
    rules = [term.rule for term in terms if isinstance(term, t.Mask)]
    out = torch.full((batch, heads, q_len, k_len), -torch.inf, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(q_len):
                factor = q.shape[-1] ** -0.5 if scale is None else scale
                factor *= grown(terms, b, h, i)
                x = transformed(terms, q_rows[b][h][i], "q", b, h, i)
                keys = k_rows[b][h // per_key_head]
                s = {
                    j: factor
                    * content(terms, x, transformed(terms, keys[j], "k", b, h, j), at, (b, h, i, j))
                    for j in range(k_len)
                    if visible(at, rules, b, i, j)
                }
                for j in s:
                    total = s[j] + outside(terms, at.k_at[b][j] - at.q_at[b][i], (b, h, i, j))
                    for term in terms:
                        if isinstance(term, t.CountTable):
                            total += counted(term, x, h, [s[n] for n in s if n >= j])
                    out[b, h, i, j] = total
    return out


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    terms: Sequence[t.Term],
    at: Scene,
    scale: float | None = None,
) -> Tensor:
    """softmax(scores, with sinks) turned v + ValueTables, zero in a row that sees nothing."""
    all_scores = scores(q, k, terms, at, scale)
    batch, heads, q_len, k_len = all_scores.shape
    v_rows, per_key_head = v.double().tolist(), heads // v.shape[1]
    out = torch.zeros(batch, heads, q_len, v.shape[-1], dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(q_len):
                row = all_scores[b, h, i].tolist()
                seen = [j for j in range(k_len) if row[j] > -math.inf]
                beside = [entry(x.values.tolist(), h) for x in terms if isinstance(x, t.SinkLogit)]
                top = max([*(row[j] for j in seen), *beside], default=0.0)
                whole = math.fsum(math.exp(s - top) for s in [*(row[j] for j in seen), *beside])
                for j in seen:
                    p = math.exp(row[j] - top) / whole
                    values = list(v_rows[b][h // per_key_head][j])
                    for term in terms:
                        if isinstance(term, t.RotateValues):
                            place = h, h // per_key_head
                            values = turned_value(term, values, b, *place, i, j)
                    for term in terms:
                        if isinstance(term, t.ValueTable):
                            row_at = row_of(term, at.k_at[b][j] - at.q_at[b][i])
                            extra = entry(term.weight.tolist(), h)[row_at]
                            values = [x + y for x, y in zip(values, extra, strict=True)]
                    out[b, h, i] += p * torch.tensor(values, dtype=torch.float64)
    return out
