"""The pages of evidence, in both languages: an index, a table by encoding, one of each claim."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import evidence_index
from evidence_tables import by_length, by_seed, code, markdown, named, shown
from evidence_texts import TEXTS as OWN
from punctuate import punctuate

from posenc.claims import Claim, claims
from posenc.claims.evidence import arms
from posenc.claims.kept import kept
from posenc.claims.sentences import all_expected
from posenc.claims.words import TEXTS
from posenc.lab.arms import METRICS, Arm
from posenc.lab.intervals import LEVEL
from posenc.lab.measured import Metric
from posenc.words import Language, Words

Found = Mapping[str, Any]


def pages(language: Language) -> dict[Path, str]:
    """Every page, by its place in the folder of evidence."""
    say, known = Words(language, {**TEXTS, **OWN}), claims()
    results = {name: kept(name) for name in known}
    written = {
        Path("index.md"): evidence_index.index(known, results, say),
        Path("overview.md"): evidence_index.overview(known, results, say),
    }
    for name, claim in known.items():
        written[Path(f"{name}.md")] = "\n".join(_page(claim, results[name], say)) + "\n"
    if language == "zh":
        return {path: punctuate(text) for path, text in written.items()}
    return written


def metrics(claim: Claim, measured: Mapping[str, Arm]) -> list[Metric]:
    """Those that a claim speaks of first, then the others that its arms have."""
    cells = [cell for one in claim.expects for cell in (one.of, one.minus) if cell is not None]
    spoken = [cell.metric for cell in cells]
    known = {metric for arm in measured.values() for metric in arm.metrics()}
    return [metric for metric in dict.fromkeys((*spoken, *METRICS)) if metric in known]


def spoken(claim: Claim, measured: Mapping[str, Arm]) -> list[Metric]:
    """The metrics of its figure: those that it speaks of by length, else all there are."""
    own = {cell.metric for one in claim.expects for cell in (one.of, one.minus) if cell is not None}
    known = metrics(claim, measured)
    return [metric for metric in known if metric in own] or known


def _page(claim: Claim, found: Found | None, say: Words) -> Iterator[str]:
    yield f"# {claim.name}\n"
    yield f"{claim.says[say.column]}\n"
    yield f"{say('source_line', source=claim.source)}\n"
    yield f"{say('differs_line', differs=claim.differs[say.column])}"
    if found is None:
        yield f"\n{say('none_yet')}\n"
        yield f"```sh\nposenc claims run {claim.name}\n```"
        return
    measured = arms(claim, found)
    yield from _verdict(claim, found, say)
    yield from _numbers(claim, measured, say)
    yield from _arms(claim, measured, say)
    yield from _made(found, say)


def _verdict(claim: Claim, found: Found, say: Words) -> Iterator[str]:
    yield f"\n## {say('verdict')}\n"
    undecided = found["outcome"] == "undecided"
    outcome = say(found["outcome"])
    told = say("verdict_undecided") if undecided else say("verdict_is", outcome=outcome)
    yield say("space").join((told, say("agreed_on" if claim.agreed else "not_agreed"))) + "\n"
    yield from (f"- {line}" for line in all_expected(found, say))


def _numbers(claim: Claim, measured: Mapping[str, Arm], say: Words) -> Iterator[str]:
    """Curves, a table for each metric, and every seed."""
    drawn, known = spoken(claim, measured), metrics(claim, measured)
    if not known:
        return
    yield f"\n## {say('by_length')}"
    if drawn:
        yield f"\n```{{gallery}} claim-{claim.name}\n:alt: {_alt(measured, drawn[0], say)}\n```"
        yield f"\n{say('curves', level=LEVEL)}"
    for metric in known:
        yield f"\n{unit(metric, say)}"
        yield by_length(measured, metric, say)
    yield f'\n<details class="answer"><summary>{say("by_seed")}</summary>'
    for metric in known:
        yield f"\n{unit(metric, say)}"
        yield by_seed(measured, metric, say)
    yield "\n</details>"


def unit(metric: str, say: Words) -> str:
    key = f"unit_{metric}"
    return say(key) if key in say.texts else say("unit", metric=word(metric, say))


def word(metric: str, say: Words) -> str:
    return say(metric) if metric in say.texts else metric


def _alt(measured: Mapping[str, Arm], metric: Metric, say: Words) -> str:
    told = []
    for label, arm in measured.items():
        ends = [(n, arm.interval(metric, n)) for n in arm.lengths(metric)]
        known = [(n, one) for n, one in ends if one is not None]
        if known:
            (start, first), (end, last) = known[0], known[-1]
            values = {"first": shown(first.mean, say), "last": shown(last.mean, say)}
            told.append(say("alt_arm", arm=label, start=f"{start}", end=f"{end}", **values))
    return say("alt", metric=word(metric, say), arms=say("semicolon").join(told))


def _arms(claim: Claim, measured: Mapping[str, Arm], say: Words) -> Iterator[str]:
    keys = ("head_arm", "head_encoding", "head_task", "head_size", "head_steps", "head_rate")
    lines = []
    for label, arm in measured.items():
        config = arm.config
        size = ", ".join(str(config.get(key, "")) for key in ("depth", "dim", "heads"))
        # A model that was not made here has sizes of its own.
        size = code(config["model"]) if config.get("model") else size
        rate = f"{config['learning_rate']:g}" if arm.trained else ""
        steps = str(config.get("steps") if config.get("minutes") is None else "")
        told = named(arm, arm.encoding, say)
        counts = f"{sum(map(bool, arm.rows.values()))}/{arm.runs}"
        lines.append([label, told, code(arm.task), size, steps, rate, counts])
    yield f"\n## {say('arms')}"
    yield markdown([*map(say, keys), say("head_runs")], lines)
    trained = sorted({arm.train for arm in measured.values()})
    notes = [say("trained_on", lengths=say.listed([str(length) for length in trained]))]
    if claim.rates:
        notes.append(say("rates", rates=say.listed([f"{rate:g}" for rate in claim.rates])))
    if claim.learned is not None:
        notes.append(say("gate", needed=claim.learned))
    yield "\n" + say("space").join(notes)


def _made(found: Found, say: Words) -> Iterator[str]:
    own = found["arms"].values()
    counts = {key: sum(arm[key] for arm in own) for key in ("runs", "done")}
    yield f"\n## {say('made')}\n"
    yield say("seeds", seconds=found["seconds"], **counts)
    for name, error in found["failed"].items():
        yield f"\n- `{name}`: {error}"
    made = found.get("made_with") or {}
    hardware, versions = made.get("hardware") or {}, made.get("versions") or {}
    if hardware:
        told = ", ".join(f"{name} {number}" for name, number in versions.items())
        date = str(found.get("started") or "")[:10]
        cpu, cores = hardware.get("gpu") or hardware.get("cpu"), hardware.get("cores", 1)
        yield "\n" + say("machine", cpu=cpu, cores=cores, versions=told, date=date)
    for arm, share in found["unlearned"].items():
        yield "\n" + say("not_learned", arm=arm, share=share)
    yield f"\n```sh\n{found['command']}\n```"
