"""report.html and report.json: what a comparison found, for people and for programs.

report.json has these keys, which stay:

    version         of this layout
    command         that repeats the comparison
    headline, verdict   the sentences of the report
    protocol, level, thresholds, noise   how it was decided
    setting         what all runs share; train_length, lengths
    encodings       by name: category, reason, seeds, diverged (seeds), change and loss, costs
    rankings        by length: best, ties, worse, behind, shown
    against_none    by length: loss minus the loss without position encoding
    claims          published ones that speak of these encodings: outcome, and the command for more
    runs            every run with its state and, where it has no result, the reason
    problems        found in the results files

An interval is {"mean", "low", "high"}. A loss that is missing or not a finite number is null.
Sentences are in English here, whatever the language of the page.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from posenc.atomic_files import write_json
from posenc.lab.aggregate import Study, study_of
from posenc.lab.folder import Run
from posenc.lab.intervals import LEVEL, Interval
from posenc.lab.page import page
from posenc.lab.provenance import problems, why_not
from posenc.lab.published import Published, speaking
from posenc.lab.verdict import BREAKS, HOLDS, Verdict, decide
from posenc.lab.wording import headline, sentences
from posenc.lab.words import TEXTS
from posenc.report.page import write_page
from posenc.words import Language, Words

VERSION = 1


class Report(NamedTuple):
    """The page, what report.json holds, and the page's first sentences."""

    page: Path
    data: dict[str, Any]
    said: list[str]


def write_report(
    out: Path,
    runs: list[Run],
    command: str,
    language: Language = "en",
    published: Sequence[Published] = (),
) -> Report:
    """Write report.html and report.json into `out`, each whole or not at all.

    The newest setting among `runs` is reported; runs of other settings are only counted, since
    their losses cannot be compared. Raises OSError when `out` cannot be written.
    """
    chosen = study_of(runs)
    verdict = decide(chosen) if chosen else None
    say = Words(language, TEXTS)
    spoken = speaking(published, chosen.encodings) if chosen else []
    body = page(runs, chosen, verdict, command, say, spoken)
    data = report_data(runs, chosen, verdict, command) | {
        "claims": [one.to_json() for one in spoken]
    }
    write_json(out / "report.json", data)
    head = headline(chosen, verdict, say)
    written = write_page(
        out / "report.html",
        command="posenc compare",
        headline=head,
        body=body,
        folder="posenc.lab",
        language=language,
    )
    return Report(written, data, [head, *_sentences(chosen, verdict, say)])


def _sentences(study: Study | None, verdict: Verdict | None, say: Words) -> list[str]:
    return sentences(study, verdict, say) if study and verdict else []


def report_data(
    runs: list[Run], study: Study | None, verdict: Verdict | None, command: str
) -> dict[str, Any]:
    """What report.json holds."""
    say = Words("en", TEXTS)
    data: dict[str, Any] = {
        "version": VERSION,
        "command": command,
        "headline": headline(study, verdict, say),
        "verdict": _sentences(study, verdict, say),
        "protocol": "targets",
        "level": LEVEL,
        "thresholds": {"holds": HOLDS, "breaks": BREAKS, "near": verdict and verdict.near},
        "noise": verdict and {"floor": verdict.noise.floor, "share": verdict.noise.share},
        "setting": study and study.setting,
        "train_length": study and study.train_length,
        "lengths": list(study.lengths) if study else [],
        "encodings": {},
        "rankings": {},
        "against_none": {},
        "runs": [
            {
                "folder": run.path.name,
                "encoding": run.config.encoding,
                "seed": run.config.seed,
                "state": run.state,
                "reason": None if run.state == "done" else why_not(run, say),
                "compared": bool(study) and run not in study.foreign and run.state == "done",
            }
            for run in runs
        ],
        "problems": problems(runs),
    }
    if study and verdict:
        data["encodings"] = {name: _encoding(study, verdict, name, say) for name in study.encodings}
        data["rankings"] = {
            str(length): {
                "best": ranking.best,
                "ties": list(ranking.ties),
                "worse": list(ranking.worse),
                "unranked": list(ranking.unranked),
                "behind": _intervals(ranking.behind),
                "shown": ranking.shown,
            }
            for length, ranking in verdict.rankings.items()
        }
        data["against_none"] = {
            str(length): _intervals(found) for length, found in verdict.against_none.items()
        }
    return data


def _encoding(study: Study, verdict: Verdict, name: str, say: Words) -> dict[str, Any]:
    judgement = verdict.judgements[name]
    losses: dict[str, dict[str, Any]] = {"targets": {}, "windows": {}}
    for (protocol, length), found in verdict.losses.items():
        by_seed = study.losses(protocol, name, length)
        losses[protocol][str(length)] = {
            "interval": _interval(found.get(name)),
            "seeds": {str(seed): _finite(loss) for seed, loss in by_seed.items()},
        }
    measured = study.of(name)
    return {
        "category": judgement.category,
        "category_windows": verdict.windows[name].category,
        "reason": say.of(judgement.reason) if judgement.reason else "",
        "seeds": list(study.seeds(name)),
        "diverged": list(study.diverged(name)),
        "change": {"near": _interval(judgement.near), "longest": _interval(judgement.far)},
        "loss": losses,
        "missing": {str(n): why for one in measured for n, why in one.missing.items()},
        "cost": {
            str(one.run.config.seed): {
                key: value for key, value in one.cost.items() if key != "kind"
            }
            | {"run_seconds": one.seconds}
            for one in measured
        },
    }


def _intervals(found: Mapping[str, Interval]) -> dict[str, Any]:
    return {name: _interval(one) for name, one in found.items()}


def _interval(found: Interval | None) -> dict[str, float] | None:
    return {"mean": found.mean, "low": found.low, "high": found.high} if found else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
