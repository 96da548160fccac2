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
    # `from posenc import *` asks for it.
    if name == "__all__":
        return importlib.import_module("posenc.api").__all__
    # Not above, for `posenc --help` needs no names.
    from posenc.lazy_names import named_in

    return named_in("posenc.api", name, __name__)


def __dir__() -> list[str]:
    return sorted({"__version__", *importlib.import_module("posenc.api").__all__})
