"""A trained table that ends before the target."""

from collections.abc import Iterator

from posenc.models.doctor.finding import Case, Finding, Words


def short_table(case: Case) -> Iterator[Finding]:
    """Tokens beyond its last row have no vector: the lookup raises, or reads what is not there."""
    for name, part in case.spec.parts.items():
        learned = [spec for spec in part.embeddings if spec.name == "learned"]
        rows = min((spec.settings["max_length"] for spec in learned), default=None)
        if name == next(iter(case.spec.parts)) and rows is not None:
            room = rows - part.first_position
            if case.target > room:
                yield Finding(
                    "short-table",
                    "error",
                    Words(
                        "The table of positions has rows for {room} tokens; token {target} has "
                        "none.",
                        "位置表只有 {room} 个词元的行；第 {target} 个词元没有行。",
                    ),
                    keys=("max_position_embeddings",),
                    numbers={"room": room, "target": case.target},
                )
