"""Whether a Chinese text is Chinese throughout."""

import re
from collections.abc import Collection
from html import unescape

HAN = re.compile(r"[\u3400-\u9fff]")
NUMBER = re.compile(r"\d[\d,.]*\d|\d")
CODE = re.compile(r"^(`{3,}).*?^\1$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"https?://\S+|“[^”]*”|\bposenc [a-z]+\b")
# Two words in a row that are no names: those have capitals, digits, dots or underscores.
PROSE = re.compile(r"(?<![\w.=-])[a-z]{2,} [a-z]{2,}(?![\w.=(])")


def said(html: str) -> str:
    """What a page says to those who see it and to those who hear it."""
    plain = re.sub(r"<style.*?</style>", "", html, flags=re.DOTALL)
    labels = re.findall(r'aria-label="([^"]*)"', plain)
    return unescape("\n".join([re.sub(r"<[^>]*>", "\n", plain), *labels]))


def english(text: str) -> list[str]:
    """The lines that hold English prose; code, commands, addresses and quoted titles are none."""
    plain = NAMED.sub("", CODE.sub("", text))
    return [line for line in plain.splitlines() if PROSE.search(line)]


def numbers(text: str) -> list[str]:
    """All numbers of a text, which are the same in every language but for their order."""
    return sorted(NUMBER.findall(text))


def check_pair(ours: str, chinese: str, endings: Collection[str] = ()) -> None:
    """Both languages of a text hold the same fields; one may lack those that choose `endings`."""
    fields = [{*re.findall(r"{(\w+)", text)} - {*endings} for text in (ours, chinese)]
    assert fields[0] == fields[1]
    ours, chinese = (re.sub(r"{[^}]*}", "", text) for text in (ours, chinese))
    assert english(chinese) == []
    assert not HAN.search(ours)
    assert chinese != ours or not re.search("[a-z]{3}", ours)
