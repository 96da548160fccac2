"""Every encoding, one file each: add a file here and its import line below.

`posenc.encodings()` lists them by name. This folder is also that function, so that the catalogue
needs no second place to register.
"""

import sys
from types import ModuleType

from posenc.encoding import Encoding
from posenc.encodings.alibi import ALiBi as ALiBi
from posenc.encodings.learned import Learned as Learned
from posenc.encodings.nope import NoPE as NoPE
from posenc.encodings.rotary import Rotary as Rotary
from posenc.encodings.shaw import Shaw as Shaw
from posenc.encodings.sinks import Sinks as Sinks
from posenc.encodings.sinusoidal import Sinusoidal as Sinusoidal
from posenc.encodings.sliding_window import SlidingWindow as SlidingWindow
from posenc.encodings.t5 import T5Bias as T5Bias


class _Catalogue(ModuleType):
    def __call__(self) -> dict[str, type[Encoding]]:
        """Every encoding class by its name."""
        members = [value for value in vars(self).values() if _is_member(value)]
        return {member.name: member for member in sorted(members, key=lambda m: m.name)}


def _is_member(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Encoding) and value is not Encoding


__all__ = [name for name, value in list(vars().items()) if _is_member(value)]
sys.modules[__name__].__class__ = _Catalogue
