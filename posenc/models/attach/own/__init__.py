"""Models whose attention is code of their own, by type, and how posenc gets into each."""

from collections.abc import Mapping

from posenc.models.attach.family import Family
from posenc.models.attach.own.bloom import BLOOM
from posenc.models.attach.own.deberta import DEBERTA
from posenc.models.attach.own.falcon import FALCON
from posenc.models.attach.own.mpt import MPT
from posenc.models.attach.own.t5 import T5
from posenc.models.attach.own.xlnet import XLNET

FAMILIES: Mapping[str, Family] = {
    "bloom": BLOOM,
    "deberta-v2": DEBERTA,
    "falcon": FALCON,
    "mpt": MPT,
    "mt5": T5,
    "t5": T5,
    "umt5": T5,
    "xlnet": XLNET,
}
