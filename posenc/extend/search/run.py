"""Search the factors of a model, keep each candidate's loss, and go on from what is kept."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from posenc.encodings import Rotary
from posenc.encodings.scaling import LongRoPE
from posenc.errors import UnsupportedError
from posenc.extend.material import Material
from posenc.extend.methods import far_rotation
from posenc.extend.options import PROTOCOL, SEARCHED
from posenc.extend.search.evolution import generations
from posenc.extend.search.factors import Candidate, Space
from posenc.extend.search.needles import needle_loss, needles
from posenc.extend.search.settings import Search
from posenc.extend.subject import Subject
from posenc.lab.folder import append_row, read_rows
from posenc.models.attach import detach
from posenc.words import Saying

ROWS = "search.jsonl"


@dataclass(frozen=True)
class Found:
    """The best scaling, and what report.json says of the search."""

    scaling: LongRoPE
    record: dict[str, Any]


def search_factors(
    subject: Subject,
    material: Material,
    search: Search,
    target: int,
    seed: int,
    out: Path,
    tell: Callable[[Saying], None],
) -> Found:
    """LongRoPE2's factors for a model to reach `target` tokens.

    Rows of `out`/search.jsonl hold a candidate each, known by the hash of the model, the text and
    the needles: the same search again takes their losses from there. After Ctrl-C they are kept.
    Raises UnsupportedError for a model whose far-seeing layers turn in several ways.
    """
    rotary = far_rotation(subject.spec, subject.trained)
    turned = Rotary(**rotary.settings)
    pairs = (turned.rotary_dim or turned.dim) // 2
    space = Space(float(turned.base), pairs, subject.trained, target)
    if space.pairs < 2:
        raise UnsupportedError(f"extend --search: {turned!r} turns one pair, and two are needed")
    hidden = needles(material, target, search.samples, seed)
    held, problems = read_rows(out / ROWS)
    for problem in problems:
        tell(Saying("as_it_is", {"text": problem}))
    depends = {"protocol": PROTOCOL, "model": subject.identity, "text": material.digest(None)}
    depends |= {"target": target, "samples": search.samples, "seed": seed}
    losses = {row["key"]: row["loss"] for row in held if row["kind"] == "candidate"}
    first = len(losses)

    def loss(candidate: Candidate) -> float:
        key = _key(candidate, depends)
        if key not in losses:
            found = replace(subject, found=scaling_of(candidate, space))
            found.attach(SEARCHED, target, target)
            value = needle_loss(subject.model, hidden)
            losses[key] = value if math.isfinite(value) else None
            row = {"kind": "candidate", "key": key, **asdict(candidate), "loss": losses[key]}
            append_row(out / ROWS, row)
            said = {"number": len(losses) - first, "critical": candidate.critical}
            tell(Saying("candidate", said | {"loss": _told(value)}))
        value = losses[key]
        return math.inf if value is None else value

    course, best = [], None
    try:
        for number, population in enumerate(generations(space, search, seed, loss)):
            best = population[0]
            course.append(best.loss if math.isfinite(best.loss) else None)
            said = {"number": number, "loss": _told(best.loss), "critical": best.candidate.critical}
            tell(Saying("generation", said))
    except KeyboardInterrupt:
        tell(Saying("search_stopped"))
        raise
    finally:
        detach(subject.model)
    assert best is not None
    record = asdict(search) | {"target": target, "course": course}
    record |= {"critical": best.candidate.critical, "critical_in_theory": space.critical[-1]}
    return Found(scaling_of(best.candidate, space), record | {"factors": best.candidate.factors})


def scaling_of(candidate: Candidate, space: Space) -> LongRoPE:
    """Long inputs by the candidate's factors, those within the trained length by none."""
    ones = (1.0,) * space.pairs
    return LongRoPE(ones, candidate.factors, space.trained, space.least)


def _key(candidate: Candidate, depends: dict[str, Any]) -> str:
    text = json.dumps({**asdict(candidate), **depends}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _told(loss: float) -> str:
    return f"{loss:.3f}" if math.isfinite(loss) else "-"
