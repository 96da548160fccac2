"""The report's record: what was run and how to repeat it, what failed, what was damaged."""

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

from posenc.lab.aggregate import Study, setting_of
from posenc.lab.folder import Run
from posenc.lab.words.record import VALUES
from posenc.report.known import known
from posenc.report.markup import Child, facts, small, table, tag
from posenc.words import Words

# The configuration is shown once for all runs, the encodings one by one.
HIDDEN = ("config", "encoding", "started")


def not_finished(study: Study, say: Words) -> Child:
    if not study.unused:
        return None
    rows = [
        tag(
            "tr",
            tag("th", run.config.encoding, scope="row"),
            tag("td", run.config.seed),
            tag("td", say(run.state), class_="words"),
            tag("td", why_not(run, say), class_="words"),
        )
        for run in study.unused
    ]
    heads = [say("encoding"), *map(say, ("seed", "state", "reason"))]
    runs = table(heads, rows, say("without_result"), words=(2, 3))
    return [tag("h2", say("failed_runs")), runs, small(say("failed_note"))]


def why_not(run: Run, say: Words) -> str:
    """Why a run has no result, in one line."""
    if run.state == "failed":
        errors = [row["error"] for row in run.rows if row["kind"] == "failed" and row.get("error")]
        return str(errors[-1]) if errors else say("no_reason")
    steps = [row["step"] for row in run.rows if row["kind"] == "train" and "step" in row]
    if not steps:
        return say("stopped_at_once")
    budget = run.config.steps
    return say("stopped_after_of" if budget else "stopped_after", step=max(steps), steps=budget)


def problems(runs: Iterable[Run]) -> list[str]:
    """What was wrong with the results files; without the folders of this machine."""
    return [
        problem.replace(str(run.path), run.path.name) for run in runs for problem in run.problems
    ]


def problem_list(runs: Sequence[Run], say: Words) -> Child:
    found = problems(runs)
    if not found:
        return None
    return [tag("h2", say("problems")), tag("ul", [tag("li", p) for p in found])]


def what_was_run(runs: Sequence[Run], study: Study, command: str, say: Words) -> Child:
    seconds = [one.seconds for one in study.measured.values() if one.seconds is not None]
    states = [say("of_state", count=len(study.measured), state=say("done"))]
    for state in ("failed", "unfinished"):
        of_state = sum(run.state == state for run in study.unused)
        states += [say("of_state", count=of_state, state=say(state))] if of_state else []
    own = [run for run in runs if run not in study.foreign]
    known = {say("key_runs"): say("comma").join(states)}
    started = [str(run.manifest["started"]) for run in own if run.manifest.get("started")]
    if started:
        known[say("key_started")] = min(started)
    known[say("key_seeds")] = say("semicolon").join(_seed_lists(study, say))
    if seconds:
        known[say("key_time")] = say("time", seconds=sum(seconds))
    known |= _shared([_flat(run.manifest, say, HIDDEN) for run in own], say)
    # The manifest says more of the corpus than its hash.
    settings = {k: v for k, v in study.setting.items() if k != "corpus"}
    known[say("key_settings")] = _shown(settings, say)
    encodings = {run.config.encoding: run.config.settings for run in own if run.config.settings}
    parts: list[Child] = [
        tag("h2", say("what_was_run")),
        tag("p", say("repeats")),
        tag("code", command, class_="command"),
        facts(known),
    ]
    if encodings:
        described = {name: tag("code", value) for name, value in sorted(encodings.items())}
        parts += [tag("h3", say("as_set")), facts(described)]
    if study.foreign:
        keys = say("comma").join(_foreign_keys(study, say))
        parts.append(small(say("foreign", runs=len(study.foreign), keys=keys)))
    return parts


def _flat(values: Mapping[str, Any], say: Words, hidden: Sequence[str] = ()) -> dict[str, str]:
    """One line for each key; what is nested becomes `key: value; key: value`."""
    shown = {key: value for key, value in values.items() if key not in hidden}
    return {
        _words(key, say): _shown(value, say) for key, value in shown.items() if not _empty(value)
    }


def _shared(manifests: Sequence[Mapping[str, str]], say: Words) -> dict[str, str]:
    """Facts of all runs; where they differ, every value."""
    keys = dict.fromkeys(key for one in manifests for key in one)
    return {
        key: say("or").join(dict.fromkeys(one[key] for one in manifests if key in one))
        for key in keys
    }


def _shown(value: Any, say: Words) -> str:
    if isinstance(value, Mapping):
        pairs = _flat(value, say).items()
        return say("semicolon").join(say("pair", key=key, value=text) for key, text in pairs)
    if isinstance(value, list | tuple):
        return say("comma").join(_shown(one, say) for one in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if value > 9999 else str(value)
    return known(str(value), VALUES, say)


def _empty(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, Sized) and not len(value))


def _words(key: str, say: Words) -> str:
    known = f"key_{key}"
    return say(known) if known in say.texts else key.replace("_", " ")


def _foreign_keys(study: Study, say: Words) -> list[str]:
    keys: set[str] = set()
    for run in study.foreign:
        # What is as it always was stands in neither.
        theirs = setting_of(run)
        known = theirs.keys() | study.setting.keys()
        differing = {key for key in known if theirs.get(key) != study.setting.get(key)}
        keys |= {_words(key, say) for key in differing} or {say("own_settings")}
    return sorted(keys)


def _seed_lists(study: Study, say: Words) -> list[str]:
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for name in study.encodings:
        by_seeds.setdefault(study.seeds(name), []).append(name)
    lists = {", ".join(map(str, seeds)): names for seeds, names in by_seeds.items()}
    if len(lists) == 1:
        return [*lists]
    return [say("seeds_of", seeds=seeds, names=names) for seeds, names in lists.items()]
