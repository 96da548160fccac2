"""What makes two implementations of one encoding differ."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.analysis.diagnosis.computation import Computation, Kind, Results
from posenc.analysis.diagnosis.difference import Difference, Place, rounding_of
from posenc.analysis.diagnosis.hypotheses import only
from posenc.analysis.diagnosis.inputs import (
    DTYPES,
    as_results,
    check_alike,
    check_kind,
    hidden,
    kind_of,
    starts,
)
from posenc.analysis.diagnosis.search import Candidate, Search, tried_tokens, within
from posenc.encoding import Context
from posenc.errors import ShapeError
from posenc.lowering import Lowerable
from posenc.positions import Positions

_SAME_RAW = (
    "That is of the same raw q and k: weights in another layout show there, before position. "
    "Compare the raw tensors of both codes, diagnose((q1, k1), (q2, k2))."
)


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found; str() says it in sentences.

    first       where the first difference is, by token, then dimension; None where they agree
    error       the largest difference, inf where scores are hidden on one side only
    allowed     what rounding allows there
    cause       of the difference in a few words; "none" where they agree, "unknown" where no
                hypothesis explains most of it
    evidence    sentences: where the difference is, what the cause says, how much it explains
    candidates  every cause that was tried, the best first
    """

    first: Place | None
    error: float
    allowed: float
    cause: str
    evidence: str
    candidates: tuple[Candidate, ...] = ()

    @property
    def agree(self) -> bool:
        return self.first is None

    def __str__(self) -> str:
        return self.evidence


def diagnose(
    ours: Tensor | Sequence[Tensor],
    theirs: Tensor | Sequence[Tensor],
    encoding: Lowerable = None,
    *,
    q: Float[Tensor, "b h tq d"] | None = None,
    k: Float[Tensor, "b g tk d"] | None = None,
    v: Float[Tensor, "b g tk d_v"] | None = None,
    x: Float[Tensor, "b t c"] | None = None,
    positions: Positions | Tensor | None = None,
    causal: bool | None = None,
    scale: float | None = None,
    context: Context | None = None,
    kind: Kind | None = None,
    dtype: torch.dtype | None = None,
) -> Diagnosis:
    """Where two implementations first differ, by how much, and the likely cause.

        theirs = posenc.rotate(q, k, posenc.Rotary(64, layout="interleaved"))
        posenc.diagnose(posenc.rotate(q, k, posenc.Rotary(64)), theirs).cause   # "layout"

    ours, theirs  a pair (q, k) after rotation, each (b, h, t, d), or q alone; or scores
                  (b, h, tq, tk); or outputs of attention (b, h, tq, d); or embeddings (b, t, c)
    encoding      what `ours` is meant to use, as `attend` takes it
    q, k, v, x    raw, before position: q and k for turned pairs and scores, v too for outputs, x
                  for embeddings. Turned pairs do without: they are turned back by the encoding,
                  and by usual ones where none is given
    positions, causal, scale, context  of `ours`, as `attend` takes them
    kind          "turned", "scores", "output" or "embedded", where the arguments do not tell
    dtype         the coarsest that either computed in; None: the coarser dtype of the two results

    Each hypothesis (another layout, sign, base, start of positions, ...) is a computation of what
    the other implementation would give if it were true; they are ranked by the share of the
    difference that they leave. Differences within rounding to dtype, of angles within rounding to
    float32, are none. Raises ShapeError for shapes that differ, integers, NaN and infinities, and
    UnsupportedError for turned pairs of an encoding that turns nothing.
    """
    one, two = as_results(ours, "ours"), as_results(theirs, "theirs")
    check_alike(one, two)
    kind = kind or kind_of(one, q, k, v, encoding)
    check_kind(one, kind)
    check_kind(two, kind)
    if dtype not in (None, *DTYPES):
        raise ShapeError(f"diagnose(dtype={dtype!r}): dtype is one of {DTYPES}, or None")
    if dtype is None:
        dtype = max((x.dtype for x in (*one, *two)), key=lambda each: torch.finfo(each).eps)
    if kind == "scores":
        one, two = hidden(one, two), hidden(two, one)
    raw = {"q": q, "k": k, "v": v, "x": x}
    # Encodings that are made on trial draw initial weights, and leave the user's numbers alone.
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        computations = starts(one, kind, encoding, raw, positions, causal, scale, context)
        sure = bool(computations) and (encoding is not None or kind != "turned")
        return _diagnosed(one, two, kind, computations, dtype, sure, q is not None)


def _diagnosed(
    ours: Results,
    theirs: Results,
    kind: Kind,
    computations: list[Computation],
    dtype: torch.dtype,
    sure: bool,
    raw: bool,
) -> Diagnosis:
    known = computations[0] if sure else None
    difference = Difference(ours, theirs, rounding_of(ours, kind, dtype, known), kind)
    place, (error, most) = difference.first(), difference.largest()
    limit = f"what rounding to {str(dtype).removeprefix('torch.')} allows there, {most:.3g}"
    if place is None:
        says = f"They agree: they differ by {error:.3g} at most, which is within {limit}."
        if raw and known is not None and known.rotate is not None:
            says += f" {_SAME_RAW}"
        return Diagnosis(None, error, most, "none", says)
    keys = known.positions.k_len if known is not None and kind == "output" else 0
    tokens = tried_tokens(ours, place.token, keys)
    allowed, exchanged, note = difference.allowed, False, ""
    if known is not None:
        exchanged, note = _who(known, difference, tokens)
    search = Search(*((theirs, ours) if exchanged else (ours, theirs)), allowed, tokens)
    search.run(computations, kind, sure)
    best = search.best()
    where = f"They differ, first at {place.shown(kind)}: ours is {place.of(ours, kind):.6g}"
    sentences = [
        f"{where}, theirs {place.of(theirs, kind):.6g}.",
        f"The difference is {error:.3g} at its largest, against {limit}.",
        difference.pattern(),
        note,
        _unknown(search, known is not None) if best is None else _likely(best, exchanged),
    ]
    evidence = " ".join(filter(None, sentences))
    candidates = tuple(candidate for candidate, _ in search.ranked())
    cause = "unknown" if best is None else best.cause
    return Diagnosis(place, error, most, cause, evidence, candidates)


def _who(known: Computation, difference: Difference, tokens: Tensor | None) -> tuple[bool, str]:
    """Whether it is ours that is not what the encoding gives, and a sentence if so."""
    right = known.cut(tokens).results()
    sides = (difference.ours, difference.theirs, difference.allowed)
    ours, theirs, allowed = (only(side, tokens) for side in sides)
    if all(map(within, right, ours, allowed)):
        return False, ""
    encoding = " with ".join(map(repr, known.parts)) or "no encoding"
    if all(map(within, right, theirs, allowed)):
        return True, f"Theirs is what {encoding} gives for the raw tensors; ours is not."
    return False, f"Ours is not what {encoding} gives for the raw tensors: check the settings too."


def _likely(best: Candidate, exchanged: bool) -> str:
    who, says = "Theirs", best.says
    if exchanged:
        # What is said of theirs against ours, said of ours against theirs.
        who, says = "Ours", re.sub(r"\bour(s?)\b", r"their\1", says)
    explained = "the whole difference, up to rounding."
    if not best.fits:
        explained = f"{100 * (1 - best.left):.3g} % of it: something else remains."
    return f"Likely cause: {best.cause}. {who} {says}. That explains {explained}"


def _unknown(search: Search, known: bool) -> str:
    says = f"None of {len(search.tried)} hypotheses explains most of the difference"
    if search.tried:
        best = search.ranked()[0][0]
        says += f"; the nearest, {best.cause}, leaves {100 * best.left:.3g} % of it"
    if not known:
        says += ". With raw tensors and the encoding of ours more can be tried"
    return f"Cause: unknown. {says}."
