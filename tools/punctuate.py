"""Full-width punctuation and spaces in Chinese Markdown.

python tools/punctuate.py PAGE...    rewrite pages
Comma, colon, semicolon, question and exclamation mark become full-width beside Chinese, brackets
where they hold Chinese or stand beside it; a space stands between Chinese and Latin letters,
digits, code and formulas. Code, formulas, addresses and options of directives stay as they are.
"""

import re
import sys
from pathlib import Path

HAN = "\u3400-\u4dbf\u4e00-\u9fff"
FULL: dict[str, str] = dict(zip(",:;?!", "\uff0c\uff1a\uff1b\uff1f\uff01", strict=True))
WIDE = "\uff0c\uff1a\uff1b\uff1f\uff01\uff08\uff09\u3001\u3002\u201c\u201d\u300a\u300b"
KEPT = re.compile(
    r"^(?P<fence>`{3,}|~{3,}|:{3,}).*?^(?P=fence)[ \t]*$"  # fenced code and directives
    r"|^\$\$.*?\$\$"
    r"|^\[[^\]]+\]:.*?$"  # addresses of links
    r"|^:[\w-]+:"  # options
    r"|^\([\w-]+\)=$"  # labels
    r"|^<!--.*?-->$"
    r"|\{[\w:-]+\}`[^`]+`"
    r"|`[^`\n]+`"
    r"|\$[^$]+?\$"
    r"|\]\([^)\s]*\)"
    r"|<?https?://[^\s)>]+>?",
    re.MULTILINE | re.DOTALL,
)
# Stand for what is kept: something Latin in the text, or nothing at all.
INLINE, ASIDE = "\ue000", "\ue001"
HELD = re.compile(f"[{INLINE}{ASIDE}]")
TEXT = f"A-Za-z0-9{INLINE}"
SKIPPED = rf"[ \t*_\"'\]{ASIDE}]*"


def punctuate(page: str) -> str:
    """The page with its Chinese punctuated."""
    kept: list[str] = []

    def hold(match: re.Match[str]) -> str:
        kept.append(directive(match[0]) if match["fence"] else match[0])
        return INLINE if match[0][0] in "`${" and not match["fence"] else ASIDE

    text = KEPT.sub(hold, page)
    back = iter(kept)
    return HELD.sub(lambda _: next(back), spaced(widened(text)))


def directive(block: str) -> str:
    """A fenced block; an answer and the caption of a figure are text again."""
    head, _, rest = block.partition("\n")
    body, _, end = rest.rpartition("\n")
    if not body or not re.search(r"\{(answer|figure-of|note|tip|warning)\}", head):
        return block
    return f"{head}\n{punctuate(body)}\n{end}"


def widened(text: str) -> str:
    after = rf"[{HAN}\u201d\u300b\uff09]{SKIPPED}(?P<a>[,:;?!])[ \t]*"
    before = rf"(?P<b>[,:;?!])[ \t]*(?=[*_\"']*[{HAN}\u201c\u300a])"

    def widen(match: re.Match[str]) -> str:
        sign = match["a"] or match["b"]
        return match[0].rstrip(" \t").removesuffix(sign).rstrip(" \t") + FULL[sign]

    text = re.sub(f"{after}|{before}", widen, text)
    inside = rf"(?<![\]A-Za-z0-9_])[ \t]*\((?P<in>[^()\n]*[{HAN}][^()\n]*)\)[ \t]*"
    text = re.sub(inside, "\uff08\\g<in>\uff09", text)
    beside = rf"(?P<han>[{HAN}]\**)[ \t]*\((?P<in>[^(),\n]{(2,)})\)[ \t]*"
    return re.sub(beside, "\\g<han>\uff08\\g<in>\uff09", text)


def spaced(text: str) -> str:
    text = re.sub(rf"(?<=[{HAN}])(?=[{TEXT}])", " ", text)
    text = re.sub(rf"(?<=[{TEXT}%])(?=[{HAN}])", " ", text)
    return re.sub(rf"[ \t]*(?P<sign>[{WIDE[:8]}])[ \t]*(?=[^\s|])", "\\g<sign>", text)


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(punctuate(path.read_text()))


if __name__ == "__main__":
    main()
