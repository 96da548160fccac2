"""Checks of who sees whom, against rules that are written here once more, in plain comparisons."""

from dataclasses import replace

import torch

from posenc.analysis.probe_context import context_for
from posenc.attention_parts import scores
from posenc.encoding import Encoding, Pairs, Visible
from posenc.encodings.sinks import Sinks
from posenc.encodings.sliding_window import SlidingWindow
from posenc.errors import CheckError
from posenc.lowering import Part
from posenc.positions import Positions
from posenc.terms import Mask, Prefix
from posenc.testing.arrangements import Arrangement, arrangements
from posenc.testing.fixtures import (
    LENGTH,
    attends,
    causalities,
    copy_of,
    hides,
    pairs_for,
    qkv,
    terms_of,
    when,
)


def visible_by_the_paper(encoding: Encoding, positions: Positions, pairs: Pairs) -> Visible:
    """Who sees whom where nothing is padded or packed: `reference_visible`, and causality."""
    q_order, k_order = pairs.orders()
    visible = encoding.reference_visible(pairs)
    return visible & (k_order <= q_order) if positions.causal else visible


@when(attends)
def check_reference_visible(encoding: Encoding) -> None:
    """It hides the pairs that the paper hides and no others, however the tokens come."""
    made = copy_of(encoding)
    for causal in causalities(made):
        for arrangement in arrangements(causal):
            orders, count = arrangement.orders, arrangement.positions.q_len
            pairs = pairs_for(qkv(made, count)[0], arrangement.positions)
            pairs = replace(pairs, q_order=orders[:, -count:], k_order=orders)
            _require_visible([made], arrangement, made.reference_visible(pairs))


@when(lambda e: attends(e) and not hides(e))
def check_masks(encoding: Encoding) -> None:
    """Windows, sinks and prefixes beside it hide exactly the keys that they should."""
    made = copy_of(encoding)
    parts: list[Part] = [made, SlidingWindow(5), SlidingWindow(3), Sinks(1)]
    # A table that ends with the longest past distance refuses what a prefix shows of the future.
    ends = any(not getattr(term, "saturates", True) for term in terms_of(made))
    for causal in causalities(made):
        for arrangement in arrangements(causal):
            order = arrangement.orders[:, None, None, :]
            q_order = order[..., -arrangement.positions.q_len :].mT
            rule = ((q_order - order).abs() < 3) | (order < 1)
            _require_visible(parts, arrangement, rule)
            if not ends:
                _require_visible([*parts, Mask(Prefix(4))], arrangement, rule, prefix=4)


def _require_visible(
    parts: list[Part], arrangement: Arrangement, rule: Visible, prefix: int = 0
) -> None:
    encoding, positions = parts[0], arrangement.positions
    assert isinstance(encoding, Encoding)
    q, k, _ = qkv(encoding, positions.q_len, LENGTH)
    context = context_for(encoding)
    visible = scores(q, k, parts, positions=positions, context=context) > -torch.inf
    expected = arrangement.visible(rule, prefix)
    # What padding sees is nobody's business.
    real = arrangement.documents[:, -positions.q_len :] >= 0
    wrong = ((visible != expected) & real[:, None, :, None]).nonzero().tolist()
    if wrong:
        row, head, i, j = wrong[0]
        seen = "hidden from" if expected[row, 0, i, j] else "seen by"
        raise CheckError(
            f"{arrangement.name}, causal={positions.causal}: key {j} is {seen} query {i} "
            f"in row {row}, head {head}: one of {len(wrong)} wrong pairs"
        )
