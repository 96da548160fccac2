"""What a comparison tells while it goes."""

import io
from dataclasses import replace
from typing import get_args

import pytest
from rich.console import Console

from posenc.lab.compare import Comparison, compare
from posenc.lab.progress import BarDisplay, Bars, LineDisplay, display
from posenc.lab.run import Ending
from posenc.lab.train import Progress
from posenc.lab.words import TEXTS
from posenc.words import LANGUAGES, Language, Words

ENGLISH = Words("en", TEXTS)


class TestDisplay:
    progress = Progress(0.5, 20, 2.25, 12_345.0)

    def test_a_file_gets_plain_lines(self, small: Comparison) -> None:
        stream = io.StringIO()
        with display(stream) as shown:
            assert isinstance(shown, LineDisplay)
            compare(small, shown)
        lines = stream.getvalue().splitlines()
        assert lines[0] == "2 runs"
        assert sum("begins" in line for line in lines) == 2
        assert sum(line.endswith(": done") for line in lines) == 2
        assert "\x1b" not in stream.getvalue()

    def test_lines_come_now_and_then(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [0.0]
        monkeypatch.setattr("posenc.lab.progress.time.monotonic", lambda: now[0])
        stream = io.StringIO()
        shown = LineDisplay(stream, ENGLISH)
        shown.plan(2, 1)
        shown.begin("none-s0-id")
        for second in range(25):
            now[0] = float(second)
            shown.update("none-s0-id", replace(self.progress, fraction=second / 50))
        assert stream.getvalue().splitlines() == [
            "2 runs, of which 1 are done already",
            "none-s0-id: begins",
            "none-s0-id: loss 2.250, 12.3k tokens/s, 0:40 left",
            "none-s0-id: loss 2.250, 12.3k tokens/s, 0:30 left",
        ]

    def test_a_terminal_gets_bars(self) -> None:
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=True, width=100)
        with BarDisplay(console, ENGLISH) as shown:
            shown.plan(2, 0)
            shown.begin("rotary-s0-abc")
            shown.update("rotary-s0-abc", self.progress)
            shown.begin("alibi-s0-def")
            shown.end("rotary-s0-abc", "failed", "it [did] not work")
        assert "rotary-s0-abc: failed: it [did] not work" in stream.getvalue()

    def test_a_stopped_run_is_not_counted_as_done(self) -> None:
        bars = Bars(ENGLISH)
        bars.plan(2, 0)
        bars.begin("a")
        bars.begin("b")
        bars.move("a", self.progress)
        assert bars.done == 0.5
        bars.end("a", "failed")
        bars.end("b", "stopped")
        assert (bars.ended, bars.done) == (1, 1)
        # What a full disk ended is not over either.
        bars.begin("b")
        bars.end("b", "full")
        assert (bars.ended, bars.done) == (1, 1)

    @pytest.mark.parametrize("state", get_args(Ending))
    @pytest.mark.parametrize("language", LANGUAGES)
    def test_every_ending_has_its_word(self, language: Language, state: str) -> None:
        stream = io.StringIO()
        for shown in (
            LineDisplay(stream, Words(language, TEXTS)),
            BarDisplay(Console(file=stream), Words(language, TEXTS)),
        ):
            shown.begin("a-s0-id")
            shown.end("a-s0-id", state, "because")
        assert TEXTS[state][LANGUAGES.index(language)]
        assert stream.getvalue().count("because") == 2

    def test_a_resumed_run_counts_time_from_where_it_began(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [0.0]
        monkeypatch.setattr("posenc.lab.progress.time.monotonic", lambda: now[0])
        stream = io.StringIO()
        shown = LineDisplay(stream, ENGLISH)
        shown.begin("r")
        shown.update("r", replace(self.progress, fraction=0.8))
        now[0] = 10.0
        shown.update("r", replace(self.progress, fraction=0.9))
        assert "0:10 left" in stream.getvalue()
