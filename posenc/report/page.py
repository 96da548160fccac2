"""A page that stands alone: one file, no script, nothing from elsewhere."""

import string
from importlib import resources
from pathlib import Path

from posenc.atomic_files import replace_file
from posenc.report.markup import Markup, text
from posenc.words import Language


def write_page(
    path: Path,
    *,
    generator: str,
    title: str,
    body: Markup,
    guide: str,
    style: str = "",
    language: Language = "en",
) -> Path:
    """Write the page whole or not at all.

    `guide` is the section at its end that says how to read it, `style` comes after the kit's own.
    """
    kit = resources.files("posenc.report")
    html = string.Template(kit.joinpath("page.html").read_text("utf-8")).substitute(
        language="zh-CN" if language == "zh" else language,
        generator=text(generator),
        title=text(title),
        style=kit.joinpath("report.css").read_text("utf-8") + style,
        body=body,
        guide=guide,
    )
    replace_file(path, html.encode("utf-8", "replace"))
    return path
