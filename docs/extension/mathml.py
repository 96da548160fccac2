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
PAIRS = (("{", "}"), (r"\\begin\b", r"\\end\b"), (r"\\left\b", r"\\right\b"))
THIN = '<mspace width="0.17em"/>'


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(mathml(node, "inline", node.astext()))
    raise nodes.SkipNode


def visit_displaymath(self: HTML5Translator, node: nodes.math_block) -> None:
    name = f' id="{escape(node["ids"][0])}"' if node["ids"] else ""
    parts = beside(node.astext())
    drawn = "".join(mathml(node, "block", part) for part in parts)
    several = " several" if len(parts) > 1 else ""
    self.body.append(f'<div class="math{several}"{name}>{drawn}</div>\n')
    raise nodes.SkipNode


def beside(text: str) -> list[str]:
    """The formulas that \\qquad keeps apart, outside of all brackets and environments."""
    parts = [part.strip() for part in text.split(r"\qquad") if part.strip()]
    return parts if all(map(closed, parts)) else [text]


def closed(part: str) -> bool:
    return all(len(re.findall(a, part)) == len(re.findall(b, part)) for a, b in PAIRS)


def mathml(node: nodes.Element, display: str, text: str) -> str:
    """The formula; a command that the converter does not know is a warning."""
    formula = convert(text, display=display)
    if "\\" in formula:
        logger.warning("latex2mathml cannot convert: %s", text, location=node)
    return FUNCTION.sub(r"\1" + THIN, formula)


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displaymath, None))
