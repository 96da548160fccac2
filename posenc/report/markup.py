"""HTML that cannot be injected into: every string is text until it is marked as markup."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TypeAlias


class Markup(str):
    """HTML as it is to be written; any other string is escaped by `tag`."""

    __slots__ = ()


Child: TypeAlias = "str | int | Sequence[Child] | None"


def tag(name: str, *children: Child, **attributes: str | int | None) -> Markup:
    """`<name attributes>children</name>`; children and attributes that are not Markup are escaped.

    A trailing underscore leaves an attribute's name (`class_`), other underscores become hyphens
    (`aria_label`), and an attribute that is None is left out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{text(children)}</{name}>")


def text(child: Child) -> Markup:
    """`child` as HTML: None is nothing, a list is its members one after the other."""
    if child is None:
        return Markup("")
    if isinstance(child, Markup):
        return child
    if isinstance(child, list | tuple):
        return Markup("".join(text(one) for one in child))
    return Markup(escape(printable(str(child))))


def printable(string: str) -> str:
    """`string` with the replacement character for what a document cannot hold (controls, halves).

    New lines and tabs stay.
    """
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for letter in string
    )


def table(
    heads: Sequence[str], rows: Sequence[Markup], label: str, words: Sequence[int] = ()
) -> Markup:
    """A table of numbers in a container of its own that scrolls; `words` are columns of text."""
    head = [
        tag("th", text, scope="col", class_="words" if i in words else None)
        for i, text in enumerate(heads)
    ]
    inner = tag("table", tag("thead", tag("tr", head)), tag("tbody", rows))
    # A region that scrolls must be reachable by keyboard.
    return tag("div", inner, class_="scroll", role="region", tabindex=0, aria_label=label)


def facts(pairs: Mapping[str, str]) -> Markup:
    """A list of names and values."""
    written = [[tag("dt", key), tag("dd", value)] for key, value in pairs.items()]
    return tag("dl", written, class_="facts")


def figure(title: str, picture: Markup, caption: str | None = None) -> Markup:
    """A picture under its title."""
    return tag("figure", tag("h3", title), picture, tag("figcaption", caption) if caption else None)


def small(note: str) -> Markup:
    return tag("p", note, class_="small")
