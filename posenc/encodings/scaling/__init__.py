"""Scalings of rotary frequencies, as values: `Rotary(64, scaling=YaRN(4, original_length=4096))`.

Each is plain data and one function from the unscaled frequencies theta[i] = base**(-2i/d) to its
own. `reference` is the paper's formula for one pair, in Python's numbers, which `Rotary` is checked
against. d is the number of rotated dimensions, i = 0 .. d/2 - 1 counts their pairs; frequencies are
in radians per token.
"""

from posenc.encodings.scaling.base import Length as Length
from posenc.encodings.scaling.base import Scaled as Scaled
from posenc.encodings.scaling.base import Scaling as Scaling
from posenc.encodings.scaling.base import Theta as Theta
from posenc.encodings.scaling.dynamic_yarn import DynamicYaRN as DynamicYaRN
from posenc.encodings.scaling.linear import Linear as Linear
from posenc.encodings.scaling.llama3 import Llama3 as Llama3
from posenc.encodings.scaling.long_rope import LongRoPE as LongRoPE
from posenc.encodings.scaling.ntk import NTK as NTK
from posenc.encodings.scaling.ntk import DynamicNTK as DynamicNTK
from posenc.encodings.scaling.proportional import Proportional as Proportional
from posenc.encodings.scaling.resonance import Resonance as Resonance
from posenc.encodings.scaling.yarn import YaRN as YaRN
