"""Every encoding, one file each: add a file here and its import line below.

`posenc.encodings()` lists them by name. This folder is also that function, so that the catalogue
needs no second place to register.
"""

import sys
from types import ModuleType

from posenc.encoding import Encoding
from posenc.encodings.alibi import ALiBi as ALiBi
from posenc.encodings.axial import AxialRotary as AxialRotary
from posenc.encodings.binary import Binary as Binary
from posenc.encodings.cable import CABLE as CABLE
from posenc.encodings.cayley_string import CayleySTRING as CayleySTRING
from posenc.encodings.chunked import Chunked as Chunked
from posenc.encodings.circulant_string import CirculantSTRING as CirculantSTRING
from posenc.encodings.coordinates import Coordinates as Coordinates
from posenc.encodings.cope import CoPE as CoPE
from posenc.encodings.deberta import DeBERTa as DeBERTa
from posenc.encodings.dual_chunk import DualChunk as DualChunk
from posenc.encodings.fire import FIRE as FIRE
from posenc.encodings.floater import FLOATER as FLOATER
from posenc.encodings.fope import FoPE as FoPE
from posenc.encodings.forget_gate import ForgetGate as ForgetGate
from posenc.encodings.grape import GRAPE as GRAPE
from posenc.encodings.grid_learned import GridLearned as GridLearned
from posenc.encodings.grid_sinusoidal import GridSinusoidal as GridSinusoidal
from posenc.encodings.hard_alibi import HardALiBi as HardALiBi
from posenc.encodings.kerple import KERPLE as KERPLE
from posenc.encodings.learned import Learned as Learned
from posenc.encodings.learned_rotary import LearnedRotary as LearnedRotary
from posenc.encodings.liere import LieRE as LieRE
from posenc.encodings.lm_infinite import LMInfinite as LMInfinite
from posenc.encodings.log_cpb import LogCPB as LogCPB
from posenc.encodings.mamba3_rotary import Mamba3Rotary as Mamba3Rotary
from posenc.encodings.mixed_rotary import MixedRotary as MixedRotary
from posenc.encodings.mrope import MRoPE as MRoPE
from posenc.encodings.nope import NoPE as NoPE
from posenc.encodings.ordinal import Ordinal as Ordinal
from posenc.encodings.path import PaTH as PaTH
from posenc.encodings.pope import PoPE as PoPE
from posenc.encodings.recurrent import Recurrent as Recurrent
from posenc.encodings.relative_projection import RelativeProjection as RelativeProjection
from posenc.encodings.rerope import ReRoPE as ReRoPE
from posenc.encodings.rope_pp import RoPEPlusPlus as RoPEPlusPlus
from posenc.encodings.rotary import Rotary as Rotary
from posenc.encodings.rotary_values import RotaryValues as RotaryValues
from posenc.encodings.sandwich import Sandwich as Sandwich
from posenc.encodings.selective_rotary import SelectiveRotary as SelectiveRotary
from posenc.encodings.self_extend import SelfExtend as SelfExtend
from posenc.encodings.shaw import Shaw as Shaw
from posenc.encodings.sink_logits import SinkLogits as SinkLogits
from posenc.encodings.sinks import Sinks as Sinks
from posenc.encodings.sinusoidal import Sinusoidal as Sinusoidal
from posenc.encodings.sliding_window import SlidingWindow as SlidingWindow
from posenc.encodings.swin import SwinBias as SwinBias
from posenc.encodings.t5 import T5Bias as T5Bias
from posenc.encodings.temperature import Temperature as Temperature
from posenc.encodings.transformer_xl import TransformerXL as TransformerXL
from posenc.encodings.tree_path import TreePath as TreePath
from posenc.encodings.waveform import Waveform as Waveform
from posenc.encodings.xpos import XPos as XPos


def members() -> dict[str, type[Encoding]]:
    """Every encoding class by its name."""
    classes = [value for value in globals().values() if isinstance(value, type)]
    kinds = [kind for kind in classes if issubclass(kind, Encoding) and kind is not Encoding]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: kind.name)}


class _Catalogue(ModuleType):
    def __call__(self) -> dict[str, type[Encoding]]:
        return members()


__all__ = [kind.__name__ for kind in members().values()]
sys.modules[__name__].__class__ = _Catalogue
