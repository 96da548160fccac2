"""What the benchmark concludes."""

import dataclasses

import pytest
from bench_cases import case_of, result

from posenc.bench.case import Goal
from posenc.bench.cases import all_cases
from posenc.bench.result import Result
from posenc.bench.verdict import figures, headline, lines, lost_to_peers, noise


class TestVerdict:
    def test_a_line_stands_for_its_worst_case(self) -> None:
        (line,) = lines([result(1.2), result(1.4, peer=3.0, name="the other")])
        assert (line.verdict, len(line.figures)) == ("met", 2)
        shown = line.to_json()
        assert (shown["worst"], shown["found"]) == ("the other", [1.4, 1.4, 1.4])
        assert shown["peer"]["name"] == "peer"
        assert shown["peer"]["found"][1] == pytest.approx(1.4 / 3)

    @pytest.mark.parametrize(
        ("found", "verdict"),
        [((1.2, 1.6), "missed"), ((1.2, None), "not available"), ((1.6, None), "missed")],
    )
    def test_one_case_decides(self, found: tuple[float | None, ...], verdict: str) -> None:
        (line,) = lines([result(one, name=f"case {one}") for one in found])
        assert line.verdict == verdict
        if None in found:
            assert line.lacking == {"case None": "no compiler"}

    def test_memory_is_a_difference(self) -> None:
        (line,) = lines([result(33.0, measure="memory")])
        assert line.unit == "MiB"
        assert line.to_json()["found"][1] == 32.0

    def test_an_overhead_is_a_difference_in_microseconds(self) -> None:
        (line,) = lines([result(1 + 20e-6, peer=1 + 30e-6, measure="overhead")])
        # The limit of this goal is 1.5.
        assert (line.unit, line.verdict) == ("µs", "missed")
        shown = line.to_json()
        assert shown["found"][1] == pytest.approx(20.0)
        assert shown["peer"]["found"][1] == pytest.approx(-10.0)
        assert lines([result(1 + 1e-6, measure="overhead")])[0].verdict == "met"

    def test_memory_that_processes_tell_is_a_difference(self) -> None:
        (line,) = lines([result(16.0, measure="told")])
        assert (line.unit, line.to_json()["found"][1]) == ("MiB", 15.0)

    def test_a_noisy_floor_is_said(self) -> None:
        loud = {"floor": [1.0, 2.0, 1.0, 2.0, 3.0], "posenc": [1.0] * 5}
        assert noise([result(1.0)]) is None
        assert "1 of 2 cases" in str(noise([result(1.0), Result(case_of(), loud)]))
        assert lines([Result(case_of(), loud)])[0].noisy

    @pytest.mark.parametrize(
        ("found", "peer", "verdict"),
        [
            (1.2, 5.0, "met"),
            (1.2, 1.2, "met"),
            (1.2, 1.1, "lost"),
            (1.6, 5.0, "missed"),
            (1.6, 1.1, "missed and lost"),
            (None, 1.0, "not available"),
        ],
    )
    def test_met_is_no_verdict_beside_a_faster_peer(
        self, found: float | None, peer: float, verdict: str
    ) -> None:
        (line,) = lines([result(found, peer=peer)])
        assert line.verdict == verdict

    def test_a_line_is_lost_with_one_of_its_cases(self) -> None:
        # The worst against the floor is another than the worst beside a peer.
        members = [result(1.4, name="slow"), result(1.0, peer=0.5, name="beaten")]
        (line,) = lines(members)
        assert line.verdict == "lost"
        shown = line.to_json()
        assert (shown["worst"], shown["peer"]["case"]) == ("slow", "beaten")
        (lost, beside) = lost_to_peers(members)["a row"]
        assert ([figure.result.case.name for figure in lost], beside) == (["beaten"], 2)

    def test_less_memory_wins(self) -> None:
        (line,) = lines([result(2.4, peer=2.0, measure="memory")])
        assert line.verdict == "lost"

    def test_who_does_less_is_no_peer(self) -> None:
        goal = dataclasses.replace(case_of().goals[0], peers=())
        (figure,) = figures([result(1.2, peer=0.1, goals=(goal,))])
        assert (figure.verdict, figure.peer) == ("met", None)

    def test_what_cannot_be_left_out_stands_beside_what_is_missed(self) -> None:
        goal = dataclasses.replace(case_of().goals[0], least="peer")
        missed, met = (result(x, peer=1.2, goals=(goal,)) for x in (1.6, 1.4))
        for one, least in ((missed, 1.2), (met, None)):
            (line,) = lines([one])
            # It is no peer, though it is faster.
            assert line.verdict == ("missed" if least else "met")
            shown = line.to_json()["least"]
            assert shown == (least and {"name": "peer", "found": [least] * 3})
        absent = Result(case_of(goals=(goal,)), {"floor": [1.0], "posenc": [2.0]})
        assert lines([absent])[0].to_json()["least"] is None

    def test_a_recording_without_a_case_says_so(self) -> None:
        case = case_of()
        absent = Result.from_json(case, None)
        assert lines([absent])[0].verdict == "not available"
        assert lines([absent])[0].lacking == {case.name: "not measured"}
        before = result(1.2)
        assert Result.from_json(before.case, before.to_json()) == before

    def test_every_goal_is_ours_to_reach(self) -> None:
        named = {goal.who for case in all_cases() for goal in case.goals}
        assert all(name.startswith("posenc") for name in named)

    def test_the_headline_counts(self) -> None:
        table = lines([result(1.0), result(2.0, goals=(Goal("b", "c", "posenc", "floor", 1),))])
        assert headline(table) == "1 of 2 figures are met, 1 missed"
        assert headline([]) == "Nothing was measured"
