"""Sphinx builds each language as a site of its own: `-t zh` is the Chinese one. See `make docs`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import posenc

if TYPE_CHECKING:
    tags: Any  # Sphinx puts it here

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

CHINESE = tags.has("zh")

project = "posenc"
author = "The posenc authors"
copyright = "The posenc authors, Apache-2.0"
release = version = posenc.__version__
language = "zh_CN" if CHINESE else "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "extension.answer",
    "extension.commands",
    "extension.docstrings",
    "extension.figure_of",
    "extension.gallery",
    "extension.leads",
    "extension.lines",
    "extension.links",
    "extension.mathml",
    "extension.page_texts",
    "extension.panel",
    "extension.search",
    "extension.theme",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
# What stands in quotes or begins with two dashes is there to be typed.
smartquotes = False
html_search_language = language.partition("_")[0]

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# Of torch's modules much would come along that is not about position.
autodoc_inherit_docstrings = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"posenc {version}"
html_static_path = ["extension/static"]
templates_path = ["extension/templates"]
html_css_files = ["posenc.css"]
html_js_files = [(name, {"defer": "defer"}) for name in ("panel.js", "copy.js")]
html_domain_indices = False
# The Chinese pages point to the English reference and have nothing of their own to index.
html_use_index = not CHINESE
html_copy_source = False
# Excerpts come from page_texts.js.
html_show_search_summary = False
html_show_sphinx = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/languages.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
html_context = (
    {"other": "en", "other_name": "English", "here": "zh", "explorer_name": "探索页"}
    if CHINESE
    else {"other": "zh", "other_name": "中文", "here": "en", "explorer_name": "Explorer"}
)
FONTS = (
    'system-ui, -apple-system, "Segoe UI", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", '
    '"WenQuanYi Zen Hei", sans-serif'
)
html_theme_options = {
    "light_css_variables": {"font-stack": FONTS},
    "top_of_page_buttons": [],
}
