"""Position encoding for Transformers.

    import posenc as pe

    rope = pe.Rotary(dim=64)
    out = pe.attend(q, k, v, rope, causal=True)

Public names are gathered in `posenc.api` and loaded on first use, so that `import posenc` and
`posenc --help` do not wait for torch.
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
    api = importlib.import_module("posenc.api")
    try:
        return getattr(api, name)
    except AttributeError:
        raise AttributeError(f"module 'posenc' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({"__version__", *importlib.import_module("posenc.api").__all__})
