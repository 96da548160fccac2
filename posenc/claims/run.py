"""Carry out what claims need, and judge them: what is done is kept, and not done again."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.atomic_files import write_json
from posenc.claims import plan
from posenc.claims.claim import Claim, Size
from posenc.claims.result import result
from posenc.errors import UnsupportedError
from posenc.lab import pretrained
from posenc.lab.complete import complete
from posenc.lab.config import RunConfig
from posenc.lab.engine.engine import Carrier, Engine
from posenc.lab.engine.local import LOCAL
from posenc.lab.folder import locked, make_folder
from posenc.lab.progress import Display
from posenc.lab.rates import check_seeds, looking, with_rate
from posenc.lab.text import Corpus, standard_library


@dataclass(frozen=True)
class Options:
    """How claims are run.

    out     the folder of runs and results
    size    small takes minutes on two cores, large hours on a GPU
    seeds   in place of each claim's own number
    budget  seconds after which no further run begins
    engine  who carries the runs out
    """

    out: Path = Path("posenc-claims")
    size: Size = "small"
    seeds: int | None = None
    jobs: int | None = None
    budget: float | None = None
    device: str = "cpu"
    engine: Engine = LOCAL


@dataclass(frozen=True)
class Outcome:
    """What came of it: results by claim, and what ended it early."""

    results: dict[str, dict[str, Any]]
    stopped: BaseException | None = None


def run(claims: Sequence[Claim], options: Options, display: Display) -> Outcome:
    """Run each claim to its verdict, in their order; runs that two need are made once.

    Each result is written to `out`/results as soon as it is known, also of what is half done. A
    claim on a model that is not installed is left out, and told of; raises UnsupportedError where
    that leaves none.
    """
    if options.seeds is not None:
        check_seeds(options.seeds)
    claims = _available(claims, options.size, display)
    corpus = _corpus(claims, options.size)
    out = options.out
    make_folder(out, "runs")
    make_folder(out, "results")
    until = None if options.budget is None else time.monotonic() + options.budget
    results: dict[str, dict[str, Any]] = {}
    ended: BaseException | None = None
    with locked(out, wait=False), options.engine.opened() as carrier:
        for claim in claims:
            stopped = _carry_out(claim, options, corpus, until, display, carrier)
            found = result(claim, options.size, by_arm(claim, options, corpus), out)
            write_json(out / "results" / f"{claim.name}.json", found)
            results[claim.name] = found
            ended = ended or stopped
            # When the time is over, claims whose runs are made have their verdict all the same.
            if stopped is not None and not isinstance(stopped, TimeoutError):
                break
    return Outcome(results, ended)


def _available(claims: Sequence[Claim], size: Size, display: Display) -> list[Claim]:
    found, reasons = [], []
    for claim in claims:
        try:
            for config in claim.arms(size).values():
                if config.model:
                    pretrained.source(config.model)
        except UnsupportedError as error:
            reasons.append(error)
            display.note(f"{claim.name} is left out: {error}")
        else:
            found.append(claim)
    if reasons and not found:
        raise reasons[0]
    return found


def by_arm(claim: Claim, options: Options, corpus: Corpus | None) -> dict[str, list[RunConfig]]:
    """The runs of each arm whose learning rate is known."""
    chosen = {
        label: with_rate(claim.rates, config, options.out)
        for label, config in plan.arms(claim, options.size, corpus).items()
    }
    seeds = options.seeds or claim.seeds
    return plan.seeded({label: arm for label, arm in chosen.items() if arm}, seeds)


def _carry_out(
    claim: Claim,
    options: Options,
    corpus: Corpus | None,
    until: float | None,
    display: Display,
    carrier: Carrier,
) -> BaseException | None:
    """Look for learning rates, then run all arms with theirs."""
    jobs = options.jobs or options.engine.at_once()
    arms = plan.arms(claim, options.size, corpus).values()
    first = list(dict.fromkeys(one for config in arms for one in looking(claim.rates, config)))

    def done(configs: Sequence[RunConfig]) -> BaseException | None:
        out, device = options.out, options.device
        return complete(out, configs, corpus, jobs, display, device, until, carrier)

    stopped = done(first) if first else None
    if stopped is not None:
        return stopped
    return done(plan.in_turn(by_arm(claim, options, corpus)))


def _corpus(claims: Sequence[Claim], size: Size) -> Corpus | None:
    configs = [config for claim in claims for config in claim.arms(size).values()]
    return standard_library() if any(config.of_text for config in configs) else None
