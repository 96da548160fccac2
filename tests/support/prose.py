"""Whether a Chinese text is Chinese throughout."""

import re
from html import unescape

HAN = re.compile(r"[\u3400-\u9fff]")
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
