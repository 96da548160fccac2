"""Trying hypotheses: how much of the difference between two results each of them leaves."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from posenc.analysis.diagnosis.computation import Computation, Kind, Results, misfit
from posenc.analysis.diagnosis.fitting import fitted, offsets
from posenc.analysis.diagnosis.hypotheses import Hypothesis, of_results, only
from posenc.analysis.diagnosis.position_causes import embedding, placing, setting
from posenc.analysis.diagnosis.score_causes import attending
from posenc.analysis.diagnosis.turning_causes import turning

# A cause that leaves more than this share of the difference is not named as likely; of two causes
# together, which are tried by the hundred, more is asked.
EXPLAINED = 0.2
EXPLAINED_BY_TWO = 0.02
# Causes that leave nothing alike, so that what else is wrong shows only on top of them.
HIDING = ("layout", "layout of the weights", "causal mask")
# Tokens that hypotheses are tried on, fewer where each has many numbers: at most as many in all.
TRIED, FEWEST, NUMBERS = 96, 24, 250_000


@dataclass(frozen=True)
class Candidate:
    """A cause that was tried.

    left   the share of the difference (root mean square) that it leaves unexplained
    fits   what it leaves is no more than rounding
    """

    cause: str
    says: str
    left: float
    fits: bool


@dataclass(eq=False)
class Trial:
    """Two results, what rounding allows between them, and the candidates found so far."""

    ours: Results
    theirs: Results
    allowed: Results
    tokens: Tensor | None
    found: list[tuple[Candidate, Hypothesis]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.wanted = self._wanted(self.tokens)

    def run(self, starts: list[Computation], kind: Kind, sure: bool) -> None:
        """Try what is simple first, and stop where something fits.

        Starts that are not sure are guesses of what ours is; each hypothesis then names its own.
        """

        def of_both(_: Computation) -> Iterator[Hypothesis]:
            return of_results(self.ours, self.theirs, kind)

        # Without raw tensors what one result says of the other comes before any guess; with them
        # a cause that names a step says more than the number by which results differ.
        if not (sure and starts) and self.add(of_results(self.ours, self.theirs, kind)):
            return
        # Of guesses the usual two are tried in full before any of the others.
        stages = (
            (exact, starts[:2]),
            (of_both, starts[:1] if sure else []),
            (self._offsets, starts[:2]),
            (self._fitted, starts[:2]),
            (exact, starts[2:]),
            (self._offsets, starts[2:]),
        )
        for generator, from_starts in stages:
            for start in from_starts:
                made = generator(start)
                if self.add(made if sure else _taken_for(start, made)):
                    return
        if sure and starts:
            self._in_pairs()

    def best(self) -> Candidate | None:
        """The likely cause, confirmed on all tokens; None where nothing explains enough."""
        likely = [(c, h) for c, h in self.ranked() if _explains(c, h)]
        for candidate, hypothesis in likely[:4]:
            whole = candidate if self.tokens is None else self.weigh(hypothesis, everywhere=True)
            if whole is not None and _explains(whole, hypothesis):
                return whole
        return None

    def _offsets(self, at: Computation) -> Iterator[Hypothesis]:
        return offsets(at, self.theirs)

    def _fitted(self, at: Computation) -> Iterator[Hypothesis]:
        return fitted(at, self.theirs)

    def _in_pairs(self) -> None:
        """Each hypothesis on top of the best ones, and of those that hide all others."""
        changed = [(c, h, h.at) for c, h in self.ranked() if h.at is not None]
        best = [(h, at) for c, h, at in changed if c.left < 0.9][:2]
        hiding = [(h, at) for _, h, at in changed if h.cause in HIDING][:4]
        for one, at in dict([*best, *hiding]).items():
            # Numbers fitted on top of what explains a little would explain a little more.
            generators = (exact, self._offsets, self._fitted)[: 3 if (one, at) in hiding else 2]
            for generator in generators:
                if self.add(_on_top(one, generator(at))):
                    return

    def add(self, hypotheses: Iterable[Hypothesis]) -> bool:
        """Weigh each of them; whether one fits."""
        fits = False
        for hypothesis in hypotheses:
            candidate = self.weigh(hypothesis)
            if candidate is not None:
                self.found.append((candidate, hypothesis))
                fits = fits or candidate.fits
        return fits

    def weigh(self, hypothesis: Hypothesis, everywhere: bool = False) -> Candidate | None:
        """How it fits the tokens tried, or all; None where it gives nothing to compare."""
        tokens = None if everywhere else self.tokens
        theirs, allowed, apart = self._wanted(None) if everywhere else self.wanted
        found = hypothesis.results(tokens)
        if found is None or any(a.shape != b.shape for a, b in zip(found, theirs, strict=True)):
            return None
        found = _compared(found, allowed)
        if any(one.isnan().any() for one in found):
            return None
        left = misfit(found, theirs) / apart if apart else 1.0
        fits = left < 0.5 and all(map(within, found, theirs, allowed))
        return Candidate(hypothesis.cause, hypothesis.says, left, fits)

    def _wanted(self, tokens: Tensor | None) -> tuple[Results, Results, float]:
        """Theirs and what rounding allows there, of these tokens or all, and how far ours is."""
        sides = (self.ours, self.theirs, self.allowed)
        if tokens is not None:
            sides = tuple(only(side, tokens) for side in sides)
        ours, theirs, allowed = sides
        ours, theirs = _compared(ours, allowed), _compared(theirs, allowed)
        return theirs, allowed, misfit(ours, theirs)

    def ranked(self) -> list[tuple[Candidate, Hypothesis]]:
        """The best first: those that fit before others, by what they leave, the simple before."""
        order = sorted(self.found, key=lambda pair: (not pair[0].fits, pair[0].left))
        if not order or not order[0][0].fits:
            return order
        # Of causes that rounding cannot tell apart, the one tried first is the simplest, and a
        # number for each row follows rounding closer than one number for all.
        least = 1.3 * order[0][0].left + 1e-5
        near = [pair for pair in self.found if pair[0].fits and pair[0].left <= least]
        return near + [pair for pair in order if all(pair is not one for one in near)]


def _explains(candidate: Candidate, hypothesis: Hypothesis) -> bool:
    most = EXPLAINED if hypothesis.causes == 1 else EXPLAINED_BY_TWO
    return candidate.fits or candidate.left <= most


def exact(at: Computation) -> Iterator[Hypothesis]:
    """Every hypothesis without a number to fit."""
    for causes in (turning, attending, placing, setting, embedding):
        yield from causes(at)


def _compared(side: Results, allowed: Results) -> Results:
    """The same number on every side where anything is allowed."""
    pairs = zip(side, allowed, strict=True)
    return tuple(one.masked_fill(most == torch.inf, 0.0) for one, most in pairs)


def _taken_for(start: Computation, made: Iterable[Hypothesis]) -> Iterator[Hypothesis]:
    for one in made:
        yield replace(one, says=f"{one.says} (if ours is {start.parts[0]!r})")


def _on_top(first: Hypothesis, others: Iterable[Hypothesis]) -> Iterator[Hypothesis]:
    for other in others:
        if other.cause != first.cause:
            cause = f"{first.cause} and {other.cause}"
            says = f"{first.says}; and {other.says}"
            yield replace(other, cause=cause, says=says, causes=2)


def tried_tokens(results: Results, first: int, keys: int) -> Tensor | None:
    """The first tokens, those around the first difference and others spread to the last."""
    length, device = results[0].shape[-2], results[0].device
    # A token has as many scores as there are keys, for outputs too.
    each = sum(
        one.numel() // one.shape[-2] // one.shape[-1] * max(one.shape[-1], keys) for one in results
    )
    most = min(TRIED, max(FEWEST, NUMBERS // each))
    if length <= most:
        return None
    third = most // 3
    spread = torch.linspace(0, length - 1, third, device=device).long()
    start = min(max(first, third), length - third)
    near = torch.arange(start, start + third, device=device)
    return torch.cat((torch.arange(third, device=device), near, spread)).unique()


def within(found: Tensor, theirs: Tensor, allowed: Tensor) -> bool:
    """Whether both are equal but for rounding, of either side and of the raw tensors."""
    anything = allowed == torch.inf
    hidden = theirs == -torch.inf
    if bool((((found == -torch.inf) != hidden) & ~anything).any()):
        return False
    # A turn may carry the rounding of one dimension into another of the same head.
    finite = allowed.masked_fill(anything, 0.0).amax(-1, keepdim=True)
    apart = (found.double() - theirs.double()).abs().masked_fill(hidden | anything, 0.0)
    return bool((apart <= 2 * finite).all())
