"""A page that stands alone: one file, no script, nothing from elsewhere."""

import string
from importlib import resources
from pathlib import Path

from posenc.atomic_files import replace_file
from posenc.report.markup import Markup, text
from posenc.report.words import SHARED
from posenc.words import Language, Words

GUIDES: dict[Language, str] = {"en": "guide.html", "zh": "guide.zh.html"}


def write_page(
    path: Path,
    *,
    command: str,
    headline: str,
    body: Markup,
    folder: str,
    style: str = "",
    language: Language = "en",
) -> Path:
    """Write the page whole or not at all.

    `command` made it. `folder` is the package whose guide.html, or guide.zh.html, stands at its end
    and says how to read it; `style` comes after the kit's own.
    """
    kit = resources.files("posenc.report")
    guide = resources.files(folder).joinpath(GUIDES[language])
    html = string.Template(kit.joinpath("page.html").read_text("utf-8")).substitute(
        language="zh-CN" if language == "zh" else language,
        generator=text(command),
        title=text(Words(language, SHARED)("title", headline=headline, command=command)),
        style=kit.joinpath("report.css").read_text("utf-8") + style,
        body=body,
        guide=guide.read_text("utf-8"),
    )
    replace_file(path, html.encode("utf-8", "replace"))
    return path
