"""The page of evidence: every claim with what came out, as Markdown in both languages."""

from collections.abc import Iterator, Mapping
from typing import Any

from evidence_texts import HEADS, INTRO, SECTION, YES
from punctuate import punctuate

from posenc.claims import Claim, claims
from posenc.claims.kept import kept
from posenc.claims.sentences import OUTCOMES, expected
from posenc.claims.words import TEXTS
from posenc.words import Language, Words


def page(language: Language) -> str:
    """A table of all claims, then each with its numbers."""
    say, known = Words(language, TEXTS), claims()
    found = {name: kept(name) for name in known}
    text = "\n".join([*_head(known, found, say), *_sections(known, found, say)]) + "\n"
    return punctuate(text) if language == "zh" else text


def _head(
    known: Mapping[str, Claim], found: Mapping[str, dict[str, Any] | None], say: Words
) -> Iterator[str]:
    ran = {name: one for name, one in found.items() if one is not None}
    counts = {o: sum(one["outcome"] == o for one in ran.values()) for o in OUTCOMES}
    agreed = [name for name in ran if known[name].agreed]
    holding = sum(ran[name]["outcome"] == "holds" for name in agreed)
    yield INTRO[say.language]
    told = say("summary", claims=len(known), known=len(ran), **counts)
    yield say("space").join((told, say("agreed", agreed=len(agreed), holds=holding)))
    yield f"\n| {' | '.join(HEADS[say.language])} |"
    yield "|---" * len(HEADS["en"]) + "|"
    for name, claim in known.items():
        one = found[name]
        outcome = say(one["outcome"] if one else "not_run")
        says = claim.says[say.column]
        agreed_on = YES[say.language] if claim.agreed else ""
        yield f"| [{says}](#{name}) | {agreed_on} | {outcome} | {claim.source} |"


def _sections(
    known: Mapping[str, Claim], found: Mapping[str, dict[str, Any] | None], say: Words
) -> Iterator[str]:
    yield f"\n## {SECTION[say.language]}"
    for name, claim in known.items():
        yield f"\n### {name}\n"
        yield f"{claim.says[say.column]}\n"
        yield f"{say('source_line', source=claim.source)}\n"
        yield f"{say('differs_line', differs=claim.differs[say.column])}\n"
        one = found[name]
        if one is None:
            yield say("none_yet")
            continue
        yield from (f"- {expected(each, one['level'], say)}" for each in one["expectations"])
        arms = one["arms"].values()
        done, runs = (sum(arm[key] for arm in arms) for key in ("done", "runs"))
        yield f"\n{say('seeds', done=done, runs=runs, seconds=one['seconds'])}\n"
        yield f"```sh\n{one['command']}\n```"
