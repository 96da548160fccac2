"""Run folders as the lab writes them, without training, and what a browser makes of a report."""

import json
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from posenc.atomic_files import write_json
from posenc.lab.config import RunConfig
from posenc.lab.folder import MANIFEST, RESULTS, Run, read_run
from posenc.lab.report import write_report
from posenc.lab.train import Progress

LENGTHS = (64, 128, 256, 512)
KNOWN = {
    "alibi": (1.85, 1.84, 1.83, 1.83),
    "learned": (1.84, 2.95, 3.20, 3.32),
    "none": (2.28, 2.40, 2.50, 2.59),
    "rotary": (1.75, 1.97, 2.46, 2.84),
}
HOSTILE = "evil:</style><script>alert(1)</script><img src=//x onerror=y>\"'&$title"
COMMAND = "posenc compare --out '<b>here</b>'"


class Page(HTMLParser):
    """What a browser would make of the page: its tags, its ids, its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for key, value in attrs:
            assert not key.startswith("on"), f"<{tag}> has {key}"
            if key == "id":
                self.ids.append(value or "")
            if key in ("src", "href", "srcset", "data", "action"):
                self.addresses.append(value or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


Known = tuple[Path, Page, str, dict[str, Any]]


def add_run(
    out: Path,
    encoding: str,
    seed: int,
    losses: tuple[float | None, ...],
    end: str = "done",
    **over: Any,
) -> Path:
    """A run folder as the lab writes it; a loss of None is a length that could not be measured.

    `changed` are other settings of its configuration.
    """
    config = RunConfig(
        **{"encoding": encoding, "settings": f"{encoding}()", "seed": seed}
        | {"steps": over.get("steps", 800), **over.get("changed", {})}
    )
    folder = out / "runs" / config.name
    folder.mkdir(parents=True)
    manifest = {
        "config": config.to_json(),
        "encoding": config.settings,
        "versions": {"python": "3.11.9", "posenc": "0.1.0", "torch": "2.13.0"},
        "hardware": {"cpu": "a <cpu>", "cores": 2, "threads": 1},
        "corpus": {
            "source": "text given with --text",
            "bytes": 123456,
            "split": "the last tenth of each file, because the text cannot be split by file",
            "skipped": {"not a file": 3},
            "sha256": "ab" * 32,
        },
        "started": over.get("started", "2026-11-21T08:00:00+00:00"),
    }
    write_json(folder / MANIFEST, manifest)
    rows: list[dict[str, Any]] = [
        {
            "kind": "train",
            "step": step,
            "tokens": step * 2048,
            "loss": 1.7 + 40 / step,
            "seconds": 1.0,
        }
        for step in range(20, 801, 20)
    ]
    if end == "failed":
        rows = [*rows[:3], {"kind": "failed", "error": over["error"]}]
    elif end == "unfinished":
        rows = rows[:5]
    else:
        for length, loss in zip(config.test_lengths, losses, strict=True):
            for protocol in ("windows", "targets"):
                about = {"protocol": protocol, "length": length}
                if loss is None:
                    rows.append({"kind": "missing", **about, "reason": over["reason"]})
                else:
                    rows.append({"kind": "loss", **about, "loss": loss, "tokens": 4096})
        edges = list(range(0, 513, 8))
        rows += [
            {"kind": "by_position", "length": 512, "edges": edges, "loss": [2.0] * 64},
            {
                "kind": "cost", "parameters": 432100, "encoding_parameters": 128, "steps": 800,
                "seconds": 20.5, "ms_per_step": 28.25, "peak_memory_mb": 181.4,
                "trained_position": 63, "trained_distance": 63,
            },
            {"kind": "done", "seconds": 21.5},
        ]  # fmt: skip
    (folder / RESULTS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def add_known(out: Path, seeds: int = 2) -> None:
    for seed in range(seeds):
        for encoding, losses in KNOWN.items():
            add_run(out, encoding, seed, tuple(loss + 0.01 * seed for loss in losses))


def report(out: Path) -> tuple[Page, str, dict[str, Any]]:
    path, written, _ = write_report(out, runs_of(out), COMMAND)
    assert path == out / "report.html"
    html = path.read_text("utf-8")
    data = json.loads((out / "report.json").read_text("utf-8"), parse_constant=pytest.fail)
    assert data == written
    return Page(html), html, data


def runs_of(out: Path) -> list[Run]:
    """Every run under `out` that can be read, in order of folder name."""
    folders = sorted((out / "runs").glob("*"))
    return [run for folder in folders if (run := read_run(folder))]


BROKEN = '''
import errno
import os
import signal

import posenc as pe


class Raises(pe.NoPE):
    """Raises in the first step."""

    def embed(self, x, positions, *, layer=0):
        raise RuntimeError("this encoding is broken")


class Dies(pe.NoPE):
    """Is killed by the system in the first step."""

    def embed(self, x, positions, *, layer=0):
        os.kill(os.getpid(), signal.SIGKILL)


class Fills(pe.NoPE):
    """Meets a full disk in the first step."""

    def embed(self, x, positions, *, layer=0):
        raise OSError(errno.ENOSPC, "No space left on device")


class Apart(pe.NoPE):
    """Is not for comparing."""

    tags = pe.Tags(comparable="it is a test")
'''


class Silent:
    """A display that shows nothing and keeps what it heard."""

    def __init__(self, hook: Callable[[str, Progress], None] = lambda name, progress: None) -> None:
        self.hook = hook
        self.ends: dict[str, str] = {}
        self.order: list[str] = []
        self.losses: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.planned = (0, 0)

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *reason: object) -> None:
        pass

    def plan(self, runs: int, done: int) -> None:
        self.planned = (runs, done)

    def begin(self, name: str) -> None:
        self.order.append(name)

    def update(self, name: str, progress: Progress) -> None:
        self.hook(name, progress)

    def lost(self, name: str, message: str) -> None:
        self.losses.append((name, message))

    def end(self, name: str, state: str, message: str) -> None:
        self.ends[name] = state

    def note(self, text: str) -> None:
        self.notes.append(text)

    def stopped(self) -> None:
        self.notes.append("stopped early")
