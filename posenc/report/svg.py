"""matplotlib's figures as SVG inside a page: text is text, colours are the page's own.

A figure is drawn with a placeholder colour for each role, and the placeholder becomes `var(--role)`
in the SVG, so that one picture is right in light, in dark and in print.
"""

import io
import re
import warnings
import zlib
from collections.abc import Callable
from typing import Any

from posenc.report.markup import Markup, tag

INK, MUTED, RULE, PAPER, BEYOND = "#b00001", "#b00002", "#b00003", "#b00004", "#b00005"
ROLES = {INK: "ink", MUTED: "muted", RULE: "rule", PAPER: "paper", BEYOND: "beyond"}
HUES = 8


def hue(style: int) -> str:
    """The placeholder of an encoding's colour; there are eight, then they come again."""
    return f"#a000{style % HUES:02d}"


def inline(draw: Callable[[], Any], alt: str | None) -> Markup:
    """The drawn figure as `<svg>`; `alt` is what a screen reader says, None hides it."""
    import matplotlib

    style = {"svg.fonttype": "none", "svg.hashsalt": "posenc", "font.size": 9.5}
    # A name may hold letters that matplotlib's own font lacks; the browser has them.
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = io.StringIO()
        empty = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        draw().savefig(file, format="svg", metadata=empty)
    return Markup(_inlined(file.getvalue(), alt))


def _inlined(svg: str, alt: str | None) -> str:
    view = re.search(r'viewBox="([^"]*)"', svg)
    body = svg[svg.index(">", svg.index("<svg")) + 1 : svg.rindex("</svg>")]
    # Its style element would hold for the whole page; report.css has the one rule in it.
    body = re.sub(r"<(metadata|style).*?</\1>", "", body, flags=re.DOTALL)
    body = body.replace("xlink:href", "href")
    for placeholder, role in ROLES.items():
        body = body.replace(placeholder, f"var(--{role})")
    body = re.sub(r"#a000(\d\d)", lambda hue: f"var(--hue-{int(hue[1])})", body)
    # Ids are unique within one picture only, and a page has many; few of them are used.
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', body))
    body = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", body)
    salt = f"{zlib.crc32((body + (alt or '')).encode('utf-8', 'replace')):x}"
    body = re.sub(r'\bid="', f'id="{salt}-', body)
    body = re.sub(r'(url\(|href=")#', rf"\1#{salt}-", body)
    label = {"role": "img", "aria_label": alt} if alt else {"aria_hidden": "true"}
    box = view[1] if view else None
    opening = tag("svg", viewBox=box, class_="figure", **label).removesuffix("</svg>")
    return f"{opening}{body}</svg>"
