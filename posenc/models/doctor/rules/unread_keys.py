"""Keys that speak of positions and that no code of this model type asks for."""

from collections.abc import Iterator

from posenc.models.doctor.finding import Case, Finding, Words


def unread_keys(case: Case) -> Iterator[Finding]:
    """One finding for all: what they mean is not guessed."""
    if case.spec.unread:
        yield Finding(
            "unread-keys",
            "warning",
            Words(
                "No rule of this model type reads these keys; whoever wrote them expects an "
                "engine that does.",
                "该模型类型没有规则读取这些键；写下它们的人期待某个引擎会读取。",
            ),
            keys=case.spec.unread,
        )
