"""The runs that claims need, each once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from posenc.claims.claim import Claim, Size
from posenc.lab import pretrained
from posenc.lab.config import RunConfig
from posenc.lab.folder import Run, read_run
from posenc.lab.model import settings_of
from posenc.lab.text import Corpus


def arms(claim: Claim, size: Size, corpus: Corpus | None) -> dict[str, RunConfig]:
    """A claim's runs by label, with what identifies their text and their encodings."""
    found = claim.arms(size)
    models = {config.model for config in found.values() if config.model}
    weights = {model: pretrained.identity(model) for model in models} | {"": ""}
    return {
        label: _whole(replace(config, weights=weights[config.model]), corpus)
        for label, config in found.items()
    }


def seeded(arms: Mapping[str, RunConfig], seeds: int) -> dict[str, list[RunConfig]]:
    """The runs of each arm; those that begin with the weights of another name its runs."""
    found: dict[str, list[RunConfig]] = {}
    # Who begins with another comes after it.
    for label, arm in sorted(arms.items(), key=lambda one: bool(one[1].base)):
        if arm.base and arm.base not in found:
            continue
        bases = [run.name for run in found[arm.base]] if arm.base else [""] * seeds
        found[label] = [replace(arm, seed=n, base=base) for n, base in enumerate(bases)]
    return {label: found[label] for label in arms if label in found}


def runs_of(configs: Iterable[RunConfig], out: Path) -> list[Run]:
    """Those that there are, finished or not."""
    found = [read_run(out / "runs" / config.name) for config in configs]
    return [run for run in found if run is not None]


def in_turn(by_arm: Mapping[str, Sequence[RunConfig]]) -> list[RunConfig]:
    """Seed by seed, so that an early end has every arm as often; each run once."""
    turns = zip(*by_arm.values(), strict=True)
    return list(dict.fromkeys(config for turn in turns for config in turn))


def _whole(config: RunConfig, corpus: Corpus | None) -> RunConfig:
    sha = corpus.summary["sha256"] if corpus is not None and config.of_text else ""
    return replace(config, corpus=sha, settings=settings_of(config))
