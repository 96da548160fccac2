"""What was published about encodings that a comparison has, and what came of it elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from posenc.report.markup import Child, small, table, tag
from posenc.words import Words


@dataclass(frozen=True)
class Published:
    """A claim that was run: its name, what it says in English and in Chinese, whom it speaks of."""

    name: str
    says: tuple[str, str]
    outcome: Literal["holds", "fails", "undecided"]
    encodings: tuple[str, ...]

    @property
    def command(self) -> str:
        return f"posenc claims show {self.name}"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "says": self.says[0],
            "outcome": self.outcome,
            "encodings": list(self.encodings),
            "command": self.command,
        }


def speaking(published: Sequence[Published], encodings: Sequence[str]) -> list[Published]:
    """Those that speak of nothing but these."""
    return [one for one in published if {*one.encodings} <= {*encodings}]


def section(found: Sequence[Published], say: Words) -> Child:
    """A line for each claim; nothing where there is none."""
    if not found:
        return None
    rows = [
        tag(
            "tr",
            tag("th", ", ".join(one.encodings), scope="row"),
            tag("td", one.says[say.column], class_="words"),
            tag("td", say(f"claim_{one.outcome}"), class_="words"),
            tag("td", tag("code", one.command), class_="words"),
        )
        for one in found
    ]
    heads = [say(key) for key in ("encoding", "claim_says", "claim_outcome", "claim_more")]
    title = say("published")
    return [tag("h2", title), table(heads, rows, title, words=(1, 2, 3)), small(say("claims_note"))]
