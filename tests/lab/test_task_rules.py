"""What each task asks, solved slowly by its rule, from what is read alone."""

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

from posenc.lab.tasks import Batch, find, names
from posenc.lab.tasks.generated import Generated

Read = list[int]


def split(read: Read, mark: int) -> tuple[Read, int]:
    """What stands before a mark, and how many tokens of the answer follow."""
    place = read.index(mark)
    return read[:place], len(read) - place - 1


# A decoder's rule says the next token of what is read so far.


def copied(task: Any, read: Read) -> int:
    text, said = split(read, task.letters)
    return text[said]


def reversed_(task: Any, read: Read) -> int:
    text, said = split(read, task.letters)
    return text[-1 - said]


def repeated(task: Any, read: Read) -> int:
    mark = task.vocabulary - 2
    (letter, *number), said = split(read, mark)
    times = int("".join(map(str, number))) if task.digits else len(number)
    return letter if said < times else mark + 1


def sorted_(task: Any, read: Read) -> int:
    keys, said = split(read, task.keys)
    return sorted(keys)[said]


def recalled(task: Any, read: Read) -> int:
    pairs, _ = split(read, task.vocabulary - 1)
    return dict(zip(pairs[::2], pairs[1::2], strict=True))[read[-1]]


def found(task: Any, read: Read) -> int:
    assert read[-1] == task.letters
    return read[read.index(task.letters) + 1]


def added(task: Any, read: Read) -> int:
    question, said = split(read, task.base + 1)
    sides = split(question, task.base)[0], question[question.index(task.base) + 1 :]
    each = 2 if task.hints else 1
    first, second = (side[each - 1 :: each] for side in sides)
    total = sum(task.base**n * digit for side in (first, second) for n, digit in enumerate(side))
    answer = [total // task.base**n % task.base for n in range(len(first) + 1)]
    if not task.hints:
        return answer[said]
    letters = [*sides[0][::2], sides[0][-2] + 1]
    return (answer if said % 2 else letters)[said // 2]


def counted(task: Any, read: Read) -> int:
    count = 0
    for token in read[:-1]:
        count = 0 if token == 1 else count + (token == 2)
    return 4 + count


def remembered(task: Any, read: Read) -> int:
    told = list(zip(read[::2], read[1::2], strict=False))
    return [bit for instruction, bit in told if instruction == 2][-1]


def stood_before(task: Any, read: Read) -> int:
    return read[-1 - task.back]


# An encoder's rule says the whole answer of what is read in front of the marks.


def bucket_sorted(task: Any, read: Read) -> Read:
    return sorted(read)


def odd_ones(task: Any, read: Read) -> Read:
    return [sum(read) % 2]


def ends_differ(task: Any, read: Read) -> Read:
    return [int(read[0] != read[-1])]


def missing(task: Any, read: Read) -> Read:
    half = len(read) // 2
    return [read[(read.index(2) + half) % (2 * half)]]


def worked_out(task: Any, read: Read) -> Read:
    said = [str(t) if t < task.modulus else "+-*"[t - task.modulus] for t in read]
    return [eval(" ".join(said)) % task.modulus]


def largest(task: Any, read: Read) -> Read:
    best = max(token // task.classes for token in read)
    return [token % task.classes for token in read if token // task.classes == best]


def exchanged(task: Any, read: Read) -> Read:
    first, _ = split(read, task.letters)
    second = read[len(first) + 1 :]
    assert sorted(first) == sorted(second)
    return [int(first != second)]


RULES: dict[str, Callable[[Any, Read], Any]] = {
    "copy": copied,
    "reverse": reversed_,
    "repeat": repeated,
    "repeat(digits=0)": repeated,
    "sort": sorted_,
    "sort(keys=24, distinct=True)": sorted_,
    "bucket_sort": bucket_sorted,
    "recall": recalled,
    "recall(keys=24, values=2)": recalled,
    "needle": found,
    "needle(depth=0.0)": found,
    "needle(depth=1.0)": found,
    "addition": added,
    "addition(hints='index', limit=24)": added,
    "addition(coupled=True, limit=24)": added,
    "addition(coupled=True, limit=24, base=2)": added,
    "parity": odd_ones,
    "even_pairs": ends_differ,
    "missing_duplicate": missing,
    "modular": worked_out,
    "modular(modulus=6)": worked_out,
    "counting": counted,
    "counting(most=3)": counted,
    "flip_flop": remembered,
    "flip_flop(ignored=0.0)": remembered,
    "maximum": largest,
    "permutation": exchanged,
    "permutation(letters=2)": exchanged,
    "offset": stood_before,
    "offset(back=5)": stood_before,
}


def made(spec: str) -> Generated:
    task = find(spec)
    assert isinstance(task, Generated)
    return task


def sampled(spec: str, length: int, count: int) -> Batch:
    return made(spec).sample(length, count, torch.Generator().manual_seed(length))


def answers_of(batch: Batch) -> list[tuple[int, ...]]:
    lists = zip(batch.targets.tolist(), batch.scored.tolist(), strict=True)
    return [tuple(itertools.compress(targets, scored)) for targets, scored in lists]


def test_every_task_has_a_rule() -> None:
    known = {name for name, kind in names().items() if issubclass(kind, Generated)}
    assert {made(spec).name for spec in RULES} == known


@pytest.mark.parametrize("spec", RULES)
def test_the_rule_says_what_is_scored(spec: str) -> None:
    task = made(spec)
    for length in (task.shortest, 4, 7, 20):
        batch = sampled(spec, length, 40)
        answers = answers_of(batch)
        for read, scored, answer in zip(
            batch.tokens.tolist(), batch.scored.tolist(), answers, strict=True
        ):
            places = [place for place, is_scored in enumerate(scored) if is_scored]
            if task.causal:
                said = [RULES[spec](task, read[: place + 1]) for place in places]
            else:
                assert {read[place] for place in places} == {task.vocabulary - 1}
                said = RULES[spec](task, read[: places[0]])
            assert tuple(said) == answer


# Whose answers have places of their own in every example are told by themselves below.
@pytest.mark.parametrize(
    "spec", [spec.replace("limit=24", "limit=4") for spec in RULES if "flip_flop" not in spec]
)
def test_chance_is_the_share_of_the_most_frequent_answer(spec: str) -> None:
    task = made(spec)
    for length in (task.shortest, task.shortest + 1):
        batch = sampled(spec, length, 6000)
        ((_, times),) = Counter(answers_of(batch)).most_common(1)
        # The largest of so many counts is somewhat above what each of them is on average.
        assert times / 6000 == pytest.approx(task.chance(length), abs=0.02, rel=0.1)


def test_a_guess_of_memory_says_the_same_bit_at_every_read() -> None:
    for spec, length in itertools.product(("flip_flop", "flip_flop(ignored=0.3)"), (2, 3, 9)):
        right = [1 not in answer for answer in answers_of(sampled(spec, length, 6000))]
        assert sum(right) / 6000 == pytest.approx(made(spec).chance(length), abs=0.02)


@pytest.mark.parametrize(
    ("spec", "kinds"),
    [
        ("parity", 2),
        ("even_pairs", 2),
        ("missing_duplicate", 2),
        ("permutation", 2),
        ("maximum", 10),
        ("needle", 16),
        ("counting", 10),
        ("offset", 10),
    ],
)
def test_answers_are_balanced_at_every_length(spec: str, kinds: int) -> None:
    for length in (12, 40):
        times = Counter(answers_of(sampled(spec, length, 6000)))
        assert len(times) == kinds
        assert max(times.values()) < 1.2 * 6000 / kinds
        assert made(spec).chance(length) == pytest.approx(1 / kinds)


def test_what_is_ignored_is_a_share() -> None:
    told = sampled("flip_flop", 50, 400).tokens[:, 2:-1:2]
    share = [(told == kind).double().mean().item() for kind in (2, 3, 4)]
    assert share == pytest.approx([0.1, 0.8, 0.1], abs=0.02)


def test_a_needle_lies_as_deep_as_is_said() -> None:
    def depths(spec: str) -> set[int]:
        batch = sampled(spec, 8, 300)
        return {row.index(16) for row in batch.tokens.tolist()}

    assert depths("needle") == {*range(9)}
    assert [depths(f"needle(depth={share})") for share in (0.0, 0.5, 1.0)] == [{0}, {4}, {8}]


def test_keys_differ_where_they_must() -> None:
    for spec in ("recall", "sort(keys=24, distinct=True)"):
        length = 20
        step = 2 if spec == "recall" else 1
        keys = sampled(spec, length, 30).tokens[:, : step * length : step].tolist()
        assert all(len({*row}) == length for row in keys)
    assert any(len({*row}) < 20 for row in sampled("sort", 20, 30).tokens[:, :20].tolist())


def test_an_exchange_is_of_any_two_places() -> None:
    batch = sampled("permutation", 6, 2000)
    changes = Counter(
        tuple(place for place in range(6) if row[place] != row[7 + place])
        for row in batch.tokens.tolist()
    )
    assert {*changes} == {(), *itertools.combinations(range(6), 2)}
