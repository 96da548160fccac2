"""The conformance page: what `make conformance` measured, as Markdown in both languages."""

import re
from typing import Any

import chinese_peers
from conformance_texts import TEXTS

from posenc.words import Language, Words


def page(report: dict[str, Any], language: Language) -> str:
    """Agreements first, then the check suite's counts."""
    say = Words(language, TEXTS)
    versions = [f"{name} {number}" for name, number in report["versions"].items()]
    comma = "、" if language == "zh" else ", "
    lines = [
        say("head", versions=comma.join(versions)),
        say("peers"),
        "|---|---|---|---|---|---|---|",
    ]
    lines += [agreement(agreed, say) for agreed in report["peers"]]
    lines += ["", say("suite"), "", say("checks"), "|---|---|---|---|"]
    for example, counted in report["checks"].items():
        counts = (str(counted.get(status, 0)) for status in ("passed", "failed", "skipped"))
        lines.append(f"| `{example}` | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"


def agreement(agreed: dict[str, Any], say: Words) -> str:
    errors = ("-" if e is None else f"{e:.1e}" for e in (agreed["forward"], agreed["gradient"]))
    oracle, status, cap = agreed["oracle"], agreed["status"], agreed["cap"]
    if say.language == "zh":
        oracle, status = chinese_peers.oracle(oracle), chinese_peers.STATUSES[status]
        cap = chinese_peers.CAPS.get(cap, cap)
    why = ""
    if cap:
        allowed = {name: agreed[f"allowed_{name}"] for name in ("forward", "gradient")}
        why = say("allowed", **allowed, why=cap)
    # An address as long as the page is wide would push the figures off it.
    oracle = re.sub(r"https://([^/ ]+)\S*", r"[\1](\g<0>)", oracle)
    cells = (agreed["encoding"], oracle, str(agreed["cases"]), *errors, status, why)
    return "| " + " | ".join(cells) + " |"
