"""Formulas as MathML, which browsers draw by themselves: no script, no fonts, no network."""

import re
from html import escape

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

# The name of a function stands a thin space before what it is taken of, unless a bracket follows.
FUNCTION = re.compile(r"(?<!<msup>)(?<!<msub>)(<mi>(?:sin|cos|tan|log|ln|exp)</mi>)(?=<m(?!o\b))")
THIN = '<mspace width="0.17em"/>'


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def visit_displaymath(self: HTML5Translator, node: nodes.math_block) -> None:
    name = f' id="{escape(node["ids"][0])}"' if node["ids"] else ""
    self.body.append(f'<div class="math"{name}>{mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def mathml(node: nodes.Element, display: str) -> str:
    """The formula; a command that the converter does not know is a warning."""
    found = convert(node.astext(), display=display)
    if "\\" in found:
        logger.warning("latex2mathml cannot convert: %s", node.astext(), location=node)
    return FUNCTION.sub(r"\1" + THIN, found)


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
