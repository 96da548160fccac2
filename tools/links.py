"""Links of a built site, offline: files, anchors and pictures are there, addresses are well formed.

python tools/links.py docs/build/html
"""

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Pages that Sphinx writes for itself: their forms and empty anchors are not ours.
ASIDE = ("_static", "_sources")


class Page(HTMLParser):
    """What a page names, and what it points to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if value and key in ("id", "name"):
                self.names.add(value)
            elif value and key in ("href", "src", "data-src"):
                self.links.append(value)


def problems(site: Path) -> Iterator[str]:
    """Every link that leads nowhere, in one line each."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if any(part in ASIDE for part in path.relative_to(site).parts):
            continue
        for link in dict.fromkeys(page.links):
            reason = fault(link, path, pages, site)
            if reason:
                yield f"{path.relative_to(site)}: {link} {reason}"


def fault(link: str, path: Path, pages: dict[Path, Page], site: Path) -> str | None:
    """Why a link is wrong, or None."""
    parts = urlsplit(link)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        good = parts.scheme in ("http", "https") and "." in parts.netloc and " " not in link
        return None if good else "is no address"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "is missing"
    if target == (site / "index.html").resolve() or target not in pages:
        # What follows # in the explorer's address are its settings.
        return None
    fragment = unquote(parts.fragment)
    return None if not fragment or fragment in pages[target].names else "has no such anchor"


def main() -> int:
    site = Path(sys.argv[1]).resolve()
    broken = list(problems(site))
    print(*broken, sep="\n", end="\n" if broken else "")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
