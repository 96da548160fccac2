"""The search for a cause: how much of the difference each hypothesis leaves."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import starmap

import torch
from torch import Tensor

from posenc.analysis.diagnosis.causes.position import embedding, position
from posenc.analysis.diagnosis.causes.result import result
from posenc.analysis.diagnosis.causes.rotation import rotation
from posenc.analysis.diagnosis.causes.score import score
from posenc.analysis.diagnosis.causes.setting import any_setting, exchanged, known_setting
from posenc.analysis.diagnosis.computation import Computation, Kind, Results, misfit
from posenc.analysis.diagnosis.fits import by_phase, fitted
from posenc.analysis.diagnosis.hypotheses import Hypothesis, only

CAUSES = (rotation, known_setting, score, position, any_setting, exchanged, embedding)
# A cause that leaves more than this share of the difference is not named as likely; of two causes
# together, which are tried by the hundred, more is asked.
EXPLAINED = 0.2
EXPLAINED_BY_TWO = 0.02
# A cause that leaves less than this explains something, and others are tried on top of it.
PARTIAL = 0.9
# Causes that leave nothing alike, so that what else is wrong shows only on top of them: how many
# ways of each are tried.
HIDING = {"layout": 1, "layout of the weights": 2, "causal mask": 1}
# How often two numbers are fitted in turn.
ROUNDS = 4
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


class Wanted:
    """What hypotheses are to give for some tokens, within what is allowed; how far off ours is."""

    def __init__(
        self, ours: Results, theirs: Results, allowed: Results, tokens: Tensor | None
    ) -> None:
        self.tokens, self.allowed = tokens, only(allowed, tokens)
        self.theirs = self.masked(only(theirs, tokens))
        self.apart = misfit(self.masked(only(ours, tokens)), self.theirs)

    def masked(self, side: Results) -> Results:
        """The same number on every side where anything is allowed."""
        pairs = zip(side, self.allowed, strict=True)
        return tuple(one.masked_fill(most == torch.inf, 0.0) for one, most in pairs)

    def weigh(self, hypothesis: Hypothesis) -> Candidate | None:
        """How a hypothesis fits these tokens; None where it gives nothing to compare."""
        results = hypothesis.results(self.tokens)
        if results is None or [x.shape for x in results] != [x.shape for x in self.theirs]:
            return None
        results = self.masked(results)
        if any(one.isnan().any() for one in results):
            return None
        left = misfit(results, self.theirs) / self.apart if self.apart else 1.0
        fits = left < 0.5 and all(map(within, results, self.theirs, self.allowed))
        return Candidate(hypothesis.cause, hypothesis.says, left, fits)


class Search:
    """Two results, what rounding allows between them, and the candidates tried so far.

    Hypotheses are tried on some tokens, None for all; the likely ones are confirmed on all.
    """

    def __init__(
        self, ours: Results, theirs: Results, allowed: Results, tokens: Tensor | None
    ) -> None:
        self.ours, self.theirs = ours, theirs
        self.tried: list[tuple[Candidate, Hypothesis]] = []
        every = torch.arange(ours[0].shape[-2], device=ours[0].device)
        few = (every if tokens is None else tokens)[::4]
        self.everything, self.some, self.few = (
            Wanted(ours, theirs, allowed, some) for some in (None, tokens, few)
        )

    def run(self, starts: list[Computation], kind: Kind, sure: bool) -> None:
        """Try what is simple first, and stop where something fits.

        Starts that are not sure are guesses of what ours is; each hypothesis then names its own.
        """

        def of_results(_: Computation | None = None) -> Iterator[Hypothesis]:
            return starmap(Hypothesis, result(self.ours, self.theirs, kind))

        # Without raw tensors what one result says of the other comes before any guess; with them
        # a cause that names a step says more than the number by which results differ.
        if not sure and self.add(of_results()):
            return
        # The two usual starts are tried in full before any other.
        stages: tuple[tuple[Callable[..., Iterator[Hypothesis]], list[Computation]], ...] = (
            (exact, starts[:2]),
            (of_results, starts if sure else []),
            (self._fitted, starts[:2]),
            (exact, starts[2:]),
            (lambda start: by_phase(start, self.theirs), starts[2:]),
        )
        for generator, from_starts in stages:
            for start in from_starts:
                generated = generator(start)
                if self.add(generated if sure else _taken_for(start, generated)):
                    return
        if sure and not self._in_pairs():
            self._two_numbers(starts[0])

    def best(self) -> Candidate | None:
        """The likely cause, confirmed on all tokens; None where nothing explains enough."""
        likely = [pair for pair in self.ranked() if _explains(*pair)]
        for _, hypothesis in likely[:4]:
            candidate = self.everything.weigh(hypothesis)
            if candidate is not None and _explains(candidate, hypothesis):
                return candidate
        return None

    def _fitted(
        self, ours: Computation, causes: tuple[str, ...] | None = None
    ) -> Iterator[Hypothesis]:
        return fitted(ours, self.theirs, causes)

    def _in_pairs(self) -> bool:
        """Each hypothesis on top of the best ones, and of those that hide all others."""
        ranked = [
            (hypothesis, theirs, candidate.left)
            for candidate, hypothesis in self.ranked()
            if isinstance(theirs := hypothesis.theirs, Computation)
        ]
        firsts = [(first, theirs) for first, theirs, left in ranked if left < PARTIAL][:2]
        for cause, count in HIDING.items():
            firsts += [pair[:2] for pair in ranked if pair[0].cause == cause][:count]
        for first, theirs in dict.fromkeys(firsts):
            for generator in (exact, self._fitted):
                if self.add(_on_top(first, generator(theirs))):
                    return True
        return False

    def _two_numbers(self, ours: Computation) -> None:
        """Two numbers that are wrong at once, each fitted beside the other in turn.

        Neither is right where it is fitted alone, but it comes nearer each time.
        """
        numbers: dict[str, Hypothesis] = {}
        for candidate, hypothesis in self.ranked():
            last = (hypothesis, *hypothesis.steps)[-1]
            if last.again is not None and candidate.left < PARTIAL:
                numbers.setdefault(last.cause, last)
        for number in list(numbers.values())[:2]:
            partners, left = None, PARTIAL
            for _ in range(ROUNDS):
                alone = None if number.again is None else number.again(ours)
                if alone is None:
                    break
                beside = self._fitted(alone, partners)
                count = len(self.tried)
                if self.add(_on_top(replace(number, theirs=alone), beside)):
                    return
                pairs = self.tried[count:]
                candidate, pair = min(pairs, key=lambda each: each[0].left, default=(None, None))
                if candidate is None or pair is None or candidate.left > 0.95 * left:
                    break
                partners, left, number = (number.cause,), candidate.left, pair.steps[-1]

    def add(self, hypotheses: Iterable[Hypothesis]) -> bool:
        """Weigh each of them; whether one fits."""
        fits = False
        for hypothesis in hypotheses:
            # There are many pairs of causes: a few tokens sort out those that explain nothing.
            if hypothesis.steps:
                hint = self.few.weigh(hypothesis)
                if hint is None or hint.left > PARTIAL:
                    continue
            candidate = self.some.weigh(hypothesis)
            if candidate is not None:
                self.tried.append((candidate, hypothesis))
                fits = fits or candidate.fits
        return fits

    def ranked(self) -> list[tuple[Candidate, Hypothesis]]:
        """The best first: those that fit before others, by what they leave, the simple before."""
        order = sorted(self.tried, key=lambda pair: (not pair[0].fits, pair[0].left))
        if not order:
            return order
        # Rounding cannot tell these causes apart. The one tried first is the simplest: a second
        # cause that explains nothing more is none, and a cause with a number for each row follows
        # rounding closer than one with a single number.
        best = order[0][0]
        least = (1.3 if best.fits else 1.0) * best.left + 1e-5
        near = [pair for pair in self.tried if pair[0].fits == best.fits and pair[0].left <= least]
        return near + [pair for pair in order if all(pair is not one for one in near)]


def exact(ours: Computation) -> Iterator[Hypothesis]:
    """Every hypothesis without a number to fit."""
    for rows in CAUSES:
        yield from starmap(Hypothesis, rows(ours))


def _explains(candidate: Candidate, hypothesis: Hypothesis) -> bool:
    most = EXPLAINED_BY_TWO if hypothesis.steps else EXPLAINED
    return candidate.fits or candidate.left <= most


def _taken_for(start: Computation, guessed: Iterable[Hypothesis]) -> Iterator[Hypothesis]:
    for one in guessed:
        yield replace(one, says=f"{one.says} (if ours is {start.parts[0]!r})")


def _on_top(first: Hypothesis, others: Iterable[Hypothesis]) -> Iterator[Hypothesis]:
    for other in others:
        if other.cause != first.cause:
            cause, says = f"{first.cause} and {other.cause}", f"{first.says}; and {other.says}"
            yield Hypothesis(cause, says, other.theirs, steps=(first, other))


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


def within(predicted: Tensor, theirs: Tensor, allowed: Tensor) -> bool:
    """Whether both are equal but for rounding, of either side and of the raw tensors."""
    anything = allowed == torch.inf
    hidden = theirs == -torch.inf
    if bool((((predicted == -torch.inf) != hidden) & ~anything).any()):
        return False
    # A rotation may carry the rounding of one dimension into another of the same head.
    finite = allowed.masked_fill(anything, 0.0).amax(-1, keepdim=True)
    apart = (predicted.double() - theirs.double()).abs().masked_fill(hidden | anything, 0.0)
    return bool((apart <= 2 * finite).all())
