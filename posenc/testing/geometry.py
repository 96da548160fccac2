"""Checks of the geometry: what moves, what stays, who sees whom."""

import torch

from posenc.attention_parts import scores
from posenc.encoding import Encoding
from posenc.lowering import lower
from posenc.positions import Positions
from posenc.rotation import per_query_head, rotate_both
from posenc.terms import DenseBias, Rotate, Transform, turns_in
from posenc.testing.fixtures import (
    LENGTH,
    VOCABULARY,
    Trial,
    attends,
    causalities,
    model_for,
    repeated,
    require,
    require_close,
    shifted,
    tokens_for,
    when,
)
from posenc.transform import multiplied_both


@when(lambda e: e.tags.translation_invariant and attends(e))
def check_translation_invariance(encoding: Encoding) -> None:
    """Scores depend on differences of positions only: moving all of them changes nothing."""
    trial = Trial.of(encoding)
    for causal in causalities(encoding):
        expected = trial.scores(positions=shifted(0, causal=causal))
        for offset in (3, 1_000):
            actual = trial.scores(positions=shifted(offset, causal=causal))
            require_close(actual, expected, 1e-9, f"moved by {offset}, causal={causal}")


@when(lambda e: e.tags.norm_preserving and attends(e))
def check_norms(encoding: Encoding) -> None:
    """Rotating preserves the length of every query and key."""
    trial = Trial.of(encoding)
    lowered = lower(trial.encoding, shifted(7), dtype=torch.float64, context=trial.context)
    zoned = [list(turns_in(term).values()) or [term] for term in lowered.terms]
    for term in [term for terms in zoned for term in terms]:
        if isinstance(term, Transform):
            after = multiplied_both(trial.q, trial.k, term, torch.float64)
            before = trial.q, repeated(trial.k, after[1].shape[1])
        elif isinstance(term, Rotate):
            before = trial.q, per_query_head(trial.k, term, trial.q.shape[1])
            after = rotate_both(*before, term, torch.float64)
        else:
            continue
        for name, x, y in zip("qk", before, after, strict=True):
            require_close(y.norm(dim=-1), x.norm(dim=-1), 1e-9, f"norm of {name}")


def check_family(encoding: Encoding) -> None:
    """An absolute encoding changes the embeddings alone; one of another family lowers to terms."""
    if encoding.family == "absolute":
        require(not attends(encoding), "it is called absolute, and attention takes it")
    elif encoding.family != "none":
        require(attends(encoding), f"its family is {encoding.family}, and attention leaves it out")


@when(lambda e: e.family not in ("none", "mask", "scale"))
def check_position_matters(encoding: Encoding) -> None:
    """Without a causal mask, permuting the tokens changes what the model says of them."""
    causal = encoding.tags.causal_only
    model, tokens = model_for(encoding, causal=causal), tokens_for()
    order = torch.arange(LENGTH).roll(3)
    permuted = model(tokens[:, order])[:, order.argsort()]
    change = (permuted - model(tokens)).abs().max().item()
    require(change > 1e-6, f"the largest change is {change:.3g}, more than 1e-06 is needed")


@when(lambda e: e.family in ("none", "mask"))
def check_position_does_not_matter(encoding: Encoding) -> None:
    """It gives no position: without any mask, scores are those of the content alone."""
    trial = Trial.of(encoding)
    actual, expected = trial.scores(positions=shifted(5, causal=False)), scores(trial.q, trial.k)
    expected = expected.masked_fill(actual == -torch.inf, -torch.inf)
    require_close(actual, expected, 1e-12, "scores of visible pairs")


def check_causal_leak(encoding: Encoding) -> None:
    """What a causal model says of a token depends on nothing behind it, nor on how much that is."""
    model, tokens = model_for(encoding), tokens_for(2 * LENGTH)
    before, counts = model(tokens), (1, 4, LENGTH)
    for count in counts:
        changed = tokens.clone()
        changed[:, count:] = (changed[:, count:] + 1) % VOCABULARY
        now = model(changed)[:, :count]
        require_close(now, before[:, :count], 1e-9, f"tokens changed from {count} on")
    for count in () if encoding.tags.length_dependent else counts:
        alone = model(tokens[:, :count])
        require_close(alone, before[:, :count], 1e-9, f"the first {count} tokens alone")


@when(attends)
def check_linear_memory(encoding: Encoding) -> None:
    """No term but DenseBias holds a value per pair of tokens."""
    length = 31 if encoding.tags.needs_extent else 173
    trial = Trial.of(encoding, length)
    positions = Positions.build(length, causal=True)
    for term in lower(trial.encoding, positions, context=trial.context).terms:
        for name, value in vars(term).items() if not isinstance(term, DenseBias) else ():
            shape = tuple(getattr(value, "shape", ()))
            quadratic = shape[-2:] == (length, length)
            require(not quadratic, f"{type(term).__name__}.{name} has shape {shape}")
