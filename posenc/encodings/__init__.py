"""Every encoding, one file each: add a file here, and its import line in `_all`.

`posenc.encodings()` lists them by name. This folder is also that function, so that the catalogue
needs no second place to register. Each encoding is loaded on first use, for all of them take as
long to load as a tenth of torch.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from posenc.lazy_names import named_in

if TYPE_CHECKING:
    from posenc.encoding import Encoding
    from posenc.encodings._all import *  # noqa: F403 - for type checkers alone


def __getattr__(name: str) -> Any:
    # `from posenc.encodings import *` asks for it.
    if name == "__all__":
        return [kind.__name__ for kind in members().values()]
    return named_in(f"{__name__}._all", name, __name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})


def members() -> "dict[str, type[Encoding]]":
    """Every encoding class by its name."""
    from posenc.encoding import Encoding

    listed = vars(importlib.import_module(f"{__name__}._all")).values()
    kinds = [kind for kind in listed if isinstance(kind, type) and issubclass(kind, Encoding)]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: kind.name)}


class _Catalogue(ModuleType):
    def __call__(self) -> "dict[str, type[Encoding]]":
        return members()


sys.modules[__name__].__class__ = _Catalogue
