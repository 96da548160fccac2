"""The search itself: the best candidates of a generation have children, which mutate."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from posenc.extend.search.factors import Candidate, Space, mutated, start
from posenc.extend.search.settings import Search

# Until a child differs from all before it.
TRIES = 20


@dataclass(frozen=True)
class Scored:
    """A candidate with its loss, in nats per token."""

    candidate: Candidate
    loss: float


def generations(
    space: Space, search: Search, seed: int, loss: Callable[[Candidate], float]
) -> Iterator[list[Scored]]:
    """The population of the first generation and of each after it, best first.

    The first holds a candidate for each critical pair, spread where there are more of these than
    candidates, and mutants of those. Then the better half has children. What is drawn follows from
    the seed and the losses, so that who knows those of before goes the same way again.
    """
    drawn = Random(f"longrope2/{seed}")
    known: set[Candidate] = set()

    def told(candidate: Candidate) -> Scored:
        known.add(candidate)
        return Scored(candidate, loss(candidate))

    def child(parents: list[Candidate]) -> Candidate:
        made = mutated(drawn.choice(parents), space, drawn)
        for _ in range(TRIES):
            if made not in known:
                break
            made = mutated(drawn.choice([*parents, made]), space, drawn)
        return made

    first = [start(space, pair, drawn) for pair in _spread(space.critical, search.population)]
    population = [told(candidate) for candidate in first]
    while len(population) < search.population:
        population.append(told(child(first)))
    population.sort(key=lambda x: x.loss)
    yield population
    for _ in range(search.generations):
        parents = population[: max(1, search.population // 2)]
        mothers = [x.candidate for x in parents]
        children = [told(child(mothers)) for _ in range(max(1, search.population - len(parents)))]
        population = sorted([*parents, *children], key=lambda x: x.loss)[: search.population]
        yield population


def _spread(pairs: range, count: int) -> list[int]:
    """At most so many of the pairs, the last of all first."""
    backwards = list(reversed(pairs))
    if len(backwards) <= count:
        return backwards
    last = max(1, count - 1)
    return [backwards[i * (len(backwards) - 1) // last] for i in range(count)]
