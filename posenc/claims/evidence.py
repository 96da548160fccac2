"""What all results know together: each arm once, whichever claims ran it, with its numbers."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from posenc.claims.claim import Claim
from posenc.lab.arms import Arm


def arms(claim: Claim, found: Mapping[str, Any]) -> dict[str, Arm]:
    """The arms of one result by label."""
    named = claim.arms(found["size"])
    made: dict[str, Arm] = {}
    bases = {label: named[label].base for label in found["arms"] if label in named}
    # Who begins with another comes after it.
    for label in sorted(found["arms"], key=lambda one: bool(bases.get(one))):
        one = found["arms"][label]
        rows = {int(seed): tuple(own) for seed, own in one["rows"].items()}
        made[label] = Arm(
            one["config"],
            rows,
            one["runs"],
            one["failed"],
            (claim.name,),
            claim.learned or 0.0,
            made.get(bases.get(label, "")),
        )
    return {label: made[label] for label in found["arms"]}


def evidence(results: Iterable[tuple[Claim, Mapping[str, Any]]]) -> list[Arm]:
    """Every arm of all results, each once; a run that two claims share counts once."""
    merged: dict[str, Arm] = {}
    for claim, found in results:
        for arm in arms(claim, found).values():
            key = _key(arm)
            merged[key] = _joined(merged[key], arm) if key in merged else arm
    return list(merged.values())


# How a run is tested, and what another version of posenc may write otherwise of the same run: its
# encoding with all settings, and the name of the run that it begins with.
_NOT_WHAT = ("test_lengths", "settings", "base")


def _key(arm: Arm) -> str:
    own = {key: value for key, value in arm.config.items() if key not in _NOT_WHAT}
    begun = _key(arm.base) if arm.base else arm.config.get("base", "")
    return json.dumps([own, begun], sort_keys=True)


def _joined(first: Arm, second: Arm) -> Arm:
    """Of rows that both have, which differ in last digits at most, the later ones are read."""
    seeds = sorted({*first.rows, *second.rows})
    return Arm(
        first.config,
        {seed: (*first.rows.get(seed, ()), *second.rows.get(seed, ())) for seed in seeds},
        max(first.runs, second.runs),
        max(first.failed, second.failed),
        tuple(dict.fromkeys((*first.claims, *second.claims))),
        max(first.gate, second.gate),
        first.base or second.base,
    )
