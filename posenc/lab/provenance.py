"""The report's record: what was run and how to repeat it, what failed, what was damaged."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

from posenc.lab.aggregate import Study
from posenc.lab.folder import Run
from posenc.report.markup import Child, facts, small, table, tag
from posenc.report.numbers import count, listed

# The configuration is shown once for all runs, the encodings one by one.
HIDDEN = ("config", "encoding", "started")


def not_finished(study: Study) -> Child:
    if not study.unused:
        return None
    rows = [
        tag(
            "tr",
            tag("th", run.config.encoding, scope="row"),
            tag("td", run.config.seed),
            tag("td", run.state, class_="words"),
            tag("td", why_not(run), class_="words"),
        )
        for run in study.unused
    ]
    heads = ["Encoding", "Seed", "State", "Reason"]
    note = "They are in no number above. The same command goes on from what is done."
    runs = table(heads, rows, "Runs without a result", words=(2, 3))
    return [tag("h2", "Failed and unfinished runs"), runs, small(note)]


def why_not(run: Run) -> str:
    """Why a run has no result, in one line."""
    if run.state == "failed":
        errors = [row["error"] for row in run.rows if row["kind"] == "failed" and row.get("error")]
        return str(errors[-1]) if errors else "no reason was recorded"
    steps = [row["step"] for row in run.rows if row["kind"] == "train" and "step" in row]
    if not steps:
        return "stopped before the first record"
    budget = f" of {run.config.steps}" if run.config.steps else ""
    return f"stopped after step {max(steps)}{budget}"


def problems(runs: Iterable[Run]) -> list[str]:
    """What was wrong with the results files; without the folders of this machine."""
    return [
        problem.replace(str(run.path), run.path.name) for run in runs for problem in run.problems
    ]


def problem_list(runs: Sequence[Run]) -> Child:
    found = problems(runs)
    if not found:
        return None
    return [tag("h2", "Problems in the results files"), tag("ul", [tag("li", p) for p in found])]


def what_was_run(runs: Sequence[Run], study: Study, command: str) -> Child:
    seconds = [one.seconds for one in study.measured.values() if one.seconds is not None]
    states = [f"{len(study.measured)} done"]
    for state in ("failed", "unfinished"):
        of_state = sum(run.state == state for run in study.unused)
        states += [f"{of_state} {state}"] if of_state else []
    own = [run for run in runs if run not in study.foreign]
    known: dict[str, str] = {"runs": ", ".join(states)}
    started = [str(run.manifest["started"]) for run in own if run.manifest.get("started")]
    if started:
        known["started"] = min(started)
    known["seeds"] = "; ".join(_seed_lists(study))
    if seconds:
        known["time"] = f"{sum(seconds):,.0f} s of training and testing, summed over runs"
    known |= _shared([_flat(run.manifest, HIDDEN) for run in own])
    # The manifest says more of the corpus than its hash.
    known["settings"] = _shown({k: v for k, v in study.setting.items() if k != "corpus"})
    settings = {run.config.encoding: run.config.settings for run in own if run.config.settings}
    parts: list[Child] = [
        tag("h2", "What was run"),
        tag("p", "This command repeats it; runs that are done are not repeated."),
        tag("code", command, class_="command"),
        facts(known),
    ]
    if settings:
        described = {name: tag("code", value) for name, value in sorted(settings.items())}
        parts += [tag("h3", "The encodings, as they were set"), facts(described)]
    if study.foreign:
        parts.append(
            small(
                f"{count(len(study.foreign), 'run')} in this folder had other settings "
                f"({', '.join(_foreign_keys(study))}) and cannot be compared with these."
            )
        )
    return parts


def _flat(values: Mapping[str, Any], hidden: Sequence[str] = ()) -> dict[str, str]:
    """One line for each key; what is nested becomes `key: value; key: value`."""
    shown = {key: value for key, value in values.items() if key not in hidden}
    return {_words(key): _shown(value) for key, value in shown.items() if not _empty(value)}


def _shared(manifests: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Facts of all runs; where they differ, every value."""
    keys = dict.fromkeys(key for one in manifests for key in one)
    return {
        key: " or ".join(dict.fromkeys(one[key] for one in manifests if key in one)) for key in keys
    }


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {text}" for key, text in _flat(value).items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if value > 9999 else str(value)
    return str(value)


def _empty(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, Sized) and not len(value))


def _words(key: str) -> str:
    return key.replace("_", " ")


def _foreign_keys(study: Study) -> list[str]:
    keys: set[str] = set()
    for run in study.foreign:
        theirs = run.config.to_json()
        differing = {key for key, value in study.setting.items() if theirs.get(key) != value}
        keys |= set(map(_words, differing)) or {"the encoding's own"}
    return sorted(keys)


def _seed_lists(study: Study) -> list[str]:
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for name in study.encodings:
        by_seeds.setdefault(study.seeds(name), []).append(name)
    if len(by_seeds) == 1:
        return [", ".join(map(str, next(iter(by_seeds))))]
    return [f"{', '.join(map(str, s))} for {listed(names)}" for s, names in by_seeds.items()]
