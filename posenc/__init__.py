"""Position encoding for Transformers.

    import posenc as pe

    rope = pe.Rotary(dim=64)
    out = pe.attend(q, k, v, rope, causal=True)

Public names are gathered in `posenc.api`, and each is loaded on first use, with what it needs and
no more: `import posenc` and `posenc --help` do not wait for torch, nor `pe.Rotary` for a backend.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posenc.api import *  # noqa: F403 - for type checkers alone

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # `from posenc import *` asks for __all__; other private names must not load torch.
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'posenc' has no attribute {name!r}")
    home = "posenc.api" if name == "__all__" else _home(name)
    module = importlib.import_module(home)
    if name in vars(module):
        found = vars(module)[name]
    else:
        try:
            found = importlib.import_module(f"{home}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{home}.{name}":
                raise
            raise AttributeError(f"module 'posenc' has no attribute {name!r}") from None
    # Kept, as an import would, so that nobody asks twice.
    return globals().setdefault(name, found)


def __dir__() -> list[str]:
    return sorted({"__version__", *importlib.import_module("posenc.api").__all__})


def _home(name: str) -> str:
    """The module that `posenc.api` has a name from; to run its lines would load everything."""
    import ast
    from pathlib import Path

    try:
        lines = ast.parse(Path(__file__).with_name("api.py").read_text("utf-8"))
    except OSError:
        # An archive without sources.
        return "posenc.api"
    homes = {
        alias.name: line.module
        for line in ast.walk(lines)
        if isinstance(line, ast.ImportFrom) and line.module and line.module.startswith("posenc")
        for alias in line.names
    }
    return homes.get(name, homes["*"])
