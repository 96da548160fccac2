"""How the benchmark times: in turns, round by round."""

import dataclasses
import random
from typing import Any

from posenc.bench.timing import in_turns, interval, ratio, spread


class TestTiming:
    def test_the_interval_is_that_of_the_sign_test(self) -> None:
        # With 11 values, the second and the tenth enclose the median with probability 0.988.
        found = interval(random.Random(0).sample(range(1, 12), 11))
        assert (found.low, found.median, found.high) == (2, 6, 10)
        assert dataclasses.astuple(interval([3.0, 1.0, 2.0])) == (1.0, 2.0, 3.0)

    def test_ratios_are_taken_round_by_round(self) -> None:
        # The machine became ten times slower after the first round.
        found = ratio([2.0, 20.0, 20.0], [1.0, 10.0, 10.0])
        assert dataclasses.astuple(found) == (2.0, 2.0, 2.0)

    def test_spread_is_that_of_the_quartiles(self) -> None:
        assert spread([1.0] * 9) == 0.0
        assert spread([1.0, 1.0, 2.0, 3.0, 3.0]) == 1.0

    def test_every_round_runs_all_in_a_random_order(self) -> None:
        ran: list[str] = []

        def self_timed(name: str, seconds: float) -> Any:
            return lambda: ran.append(name) or seconds

        calls = {name: self_timed(name, 1.0 + i) for i, name in enumerate("abc")}
        found = in_turns(calls, seconds=0.0, rounds=(7, 40))
        assert found == {"a": [1.0] * 7, "b": [2.0] * 7, "c": [3.0] * 7}
        rounds = ["".join(ran[i : i + 3]) for i in range(3, len(ran), 3)]
        assert len(rounds) == 7
        assert {"".join(sorted(each)) for each in rounds} == {"abc"}
        assert len(set(rounds)) > 2

    def test_what_is_not_warmed_up_runs_in_rounds_alone(self) -> None:
        ran: list[int] = []
        found = in_turns({"a": lambda: ran.append(1)}, seconds=9.0, rounds=(2, 5), warm=False)
        assert len(found["a"]) == len(ran) == 2
