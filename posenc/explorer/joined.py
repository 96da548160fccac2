"""ES modules as one script: each a function that gives what it exports, after those it imports."""

import re
from collections.abc import Mapping
from graphlib import TopologicalSorter

_IMPORT = re.compile(r'^import\s+([\w*{][^;"`]*?)\s+from\s+"#([^"]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export default ", re.MULTILINE)
# What would end or hide the script that the page holds it in.
_ESCAPED = (("</script", r"<\/script"), ("<!--", r"<\!--"))


def joined(sources: Mapping[str, str]) -> str:
    """The modules of `sources`, by the names that they import each other by, as one script.

    A page that holds it starts sooner than one that loads each module by itself. Exported are
    functions, constants and classes where they are declared, and defaults; a line of another kind
    raises ValueError, as modules do that import each other in a circle.
    """
    imported = {name: {found[2] for found in _IMPORT.finditer(s)} for name, s in sources.items()}
    # CycleError is a ValueError.
    order = TopologicalSorter(imported).static_order()
    text = "const modules = {};\n" + "".join(_wrapped(name, sources[name]) for name in order)
    for sign, escaped in _ESCAPED:
        text = text.replace(sign, escaped)
    return text


def _wrapped(name: str, source: str) -> str:
    exports = {found[1]: found[1] for found in _EXPORT.finditer(source)}
    body, defaults = _DEFAULT.subn("const _default = ", _EXPORT.sub("", source))
    if defaults:
        exports["default"] = "_default"
    body = _IMPORT.sub(_taken, body)
    left = re.search(r'^(?:export\b.*|import\b.*"#.*)$', body, re.MULTILINE)
    if left:
        raise ValueError(f"{name} cannot be joined with other modules: {left[0]}")
    given = ", ".join(key if key == own else f"{key}: {own}" for key, own in exports.items())
    return f'modules["{name}"] = (() => {{\n{body.strip()}\nreturn {{ {given} }};\n}})();\n'


def _taken(found: re.Match[str]) -> str:
    """An import as a constant: `{ a as b }`, `* as a`, or the default by a name."""
    names, module = found[1], f'modules["{found[2]}"]'
    if names.startswith("{"):
        names = re.sub(r"(\w+) as (\w+)", r"\1: \2", names)
        return f"const {names} = {module};"
    if names.startswith("*"):
        return f"const {names.partition(' as ')[2]} = {module};"
    return f"const {names} = {module}.default;"
