"""A pytest plugin: under POSENC_CI a skipped test is an error, unless its reason is listed here.

A test that does not run cannot fail, and a machine that lacks something would pass in silence.
"""

import os
import re
import sys

import pytest

# What the reason of a skip may say, and why nobody has to mend that.
ALLOWED = {
    "takes no such table here": "what a backend refuses it cannot get wrong",
    "this Python has no": "modules of the standard library come and go",
}
if sys.platform != "linux":
    ALLOWED |= {
        "needs Triton": "there is none but for Linux",
        r"could not import '(fcntl|resource)'": "Windows has no such module",
        "needs bash|needs named pipes|does not fork": "nor these",
        "wants UTF-8 names": "macOS refuses others",
    }


class SkipsAreErrors:
    def __init__(self) -> None:
        self.unlisted: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        # A test that is expected to fail, and does, is reported as skipped too.
        if not report.skipped or hasattr(report, "wasxfail"):
            return
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        if not any(re.search(pattern, reason) for pattern in ALLOWED):
            self.unlisted[report.nodeid] = reason

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unlisted and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.unlisted:
            return
        terminalreporter.section("skipped, which is an error under POSENC_CI", red=True)
        for nodeid, reason in self.unlisted.items():
            terminalreporter.line(f"{nodeid}: {reason}")
        terminalreporter.line(f"Install what is missing, or list the reason in {__name__}.")


def pytest_configure(config: pytest.Config) -> None:
    # Workers of xdist send their reports to the process that started them.
    if os.environ.get("POSENC_CI") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipsAreErrors())
