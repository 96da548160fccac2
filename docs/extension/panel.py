"""```{panel} NAME SETTING=VALUE ...: a panel of the explorer, as a link and on wide screens itself.

```{chapter} NAME SETTING=VALUE ... is the chapter of its story. Settings may be left out, and are
those of the address: `a=sinusoidal`, `bias.kind=t5`.
"""

from html import escape

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from extension.links import explorer
from extension.words import word
from posenc.explorer.bundle import chapters, panels

NAMES = {"panel": panels, "chapter": chapters}

HTML = """<div class="panel">
<p><a href="{href}">{text}</a></p>
<iframe data-src="{href}" title="{text}" loading="lazy"></iframe>
</div>"""


def opened(argument: str, kind: str = "panel") -> tuple[str, dict[str, str]]:
    """The name of a panel or chapter, and its settings. Raises ValueError for what is neither."""
    name, *settings = argument.split()
    known = NAMES[kind]()
    if name not in known:
        raise ValueError(f"there is no {name!r}, but {', '.join(known)}")
    wrong = [setting for setting in settings if "=" not in setting]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no setting: write name=value")
    return name, dict(setting.split("=", 1) for setting in settings)


class Panel(SphinxDirective):
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        try:
            name, settings = opened(self.arguments[0], self.name)
        except ValueError as error:
            raise self.error(f"{self.name}: {error}") from error
        shown = f"panel={name}" if self.name == "panel" else name
        href = escape(explorer(self.config, self.env.docname, shown, settings))
        html = HTML.format(href=href, text=word(self.config, "panel"))
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> None:
    for kind in NAMES:
        app.add_directive(kind, Panel)
