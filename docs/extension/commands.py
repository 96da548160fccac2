"""```{commands}: every command of `posenc`, from its own help."""

import re
from collections.abc import Iterator
from typing import Any

import typer
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from posenc.commands import app as posenc_app

TYPED = re.compile(r"((?:(?!`|(?<![\w-])--\w).)+)|`([^`]+)`|(--[\w-]+)")


class Commands(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        # Typer brings its own click, so these are told by what they do, not by their classes.
        group: Any = typer.main.get_command(posenc_app)
        above = group.context_class(group, info_name="posenc")
        return [
            self.section(command, command.context_class(command, info_name=name, parent=above))
            for name, command in group.commands.items()
        ]

    def section(self, command: Any, context: Any) -> nodes.section:
        name = context.command_path
        section = nodes.section(ids=[nodes.make_id(name)], names=[nodes.fully_normalize_name(name)])
        section += nodes.title(name, "", nodes.literal(text=name))
        self.state.document.note_explicit_target(section, section)
        usage = command.get_usage(context).removeprefix("Usage: ")
        section += nodes.literal_block(usage, usage, language="text")
        for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
            section += nodes.paragraph("", "", *words(" ".join(paragraph.split())))
        section += nodes.definition_list("", *options(command, context))
        return section


def options(command: Any, context: Any) -> Iterator[nodes.definition_list_item]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        name, text = record
        term = nodes.term("", "", nodes.literal(text=name))
        yield nodes.definition_list_item(
            "", term, nodes.definition("", nodes.paragraph("", "", *words(text or "")))
        )


def words(text: str) -> Iterator[nodes.Node]:
    """What stands in backticks, or is an option, as code."""
    for plain, code, option in TYPED.findall(text):
        if plain:
            yield nodes.Text(plain)
        else:
            yield nodes.literal(text=code or option)


def setup(app: Sphinx) -> None:
    app.add_directive("commands", Commands)
