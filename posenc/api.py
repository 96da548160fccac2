"""Every public name, gathered in one place: `posenc` reads here where each is, and loads that."""

from typing import TYPE_CHECKING, Any

from posenc import encodings as encodings
from posenc.analysis import measure as measure
from posenc.analysis.decompose import decompose as decompose
from posenc.analysis.diagnose import diagnose as diagnose
from posenc.attention import attend as attend
from posenc.attention import explain_backend as explain_backend
from posenc.attention_parts import rotate as rotate
from posenc.attention_parts import scores as scores
from posenc.caches.cache import Cache as Cache
from posenc.caches.latent import LatentCache as LatentCache
from posenc.caches.rerotation import rerotate as rerotate
from posenc.caches.rolling import RollingCache as RollingCache
from posenc.caches.static import StaticCache as StaticCache
from posenc.catalogue import make as make
from posenc.conversion.checkpoint import convert_checkpoint as convert_checkpoint
from posenc.conversion.layout import convert_layout as convert_layout
from posenc.conversion.pairs import FusedHeads as FusedHeads
from posenc.encoding import Context as Context
from posenc.encoding import Encoding as Encoding
from posenc.encoding import Tags as Tags
from posenc.encodings._all import *  # noqa: F403 - they are listed in their folder alone
from posenc.encodings.scaling import NTK as NTK
from posenc.encodings.scaling import DynamicNTK as DynamicNTK
from posenc.encodings.scaling import DynamicYaRN as DynamicYaRN
from posenc.encodings.scaling import Linear as Linear
from posenc.encodings.scaling import Llama3 as Llama3
from posenc.encodings.scaling import LongRoPE as LongRoPE
from posenc.encodings.scaling import Proportional as Proportional
from posenc.encodings.scaling import Resonance as Resonance
from posenc.encodings.scaling import YaRN as YaRN
from posenc.errors import CacheError as CacheError
from posenc.errors import CheckError as CheckError
from posenc.errors import ConfigError as ConfigError
from posenc.errors import ConversionError as ConversionError
from posenc.errors import LabError as LabError
from posenc.errors import PosencError as PosencError
from posenc.errors import PositionsError as PositionsError
from posenc.errors import SettingError as SettingError
from posenc.errors import ShapeError as ShapeError
from posenc.errors import UnknownNameError as UnknownNameError
from posenc.errors import UnsupportedError as UnsupportedError
from posenc.latent import LatentAttention as LatentAttention
from posenc.linear.attention import linear_attention as linear_attention
from posenc.linear.scan import LinearState as LinearState
from posenc.linear.step import linear_step as linear_step
from posenc.lowering import Lowered as Lowered
from posenc.lowering import lower as lower
from posenc.mask_decoder import EnhancedMaskDecoder as EnhancedMaskDecoder
from posenc.merging import merge as merge
from posenc.model import Attention as Attention
from posenc.model import Transformer as Transformer
from posenc.model import TransformerEmbedding as TransformerEmbedding
from posenc.models.attach.attaching import attach as attach
from posenc.models.attach.attaching import detach as detach
from posenc.models.diagnose_models import diagnose_models as diagnose_models
from posenc.models.layers import layers as layers
from posenc.models.read import read as read
from posenc.models.spec import ModelSpec as ModelSpec
from posenc.parallel.ring import ring_attend as ring_attend
from posenc.parallel.sharded import Sharded as Sharded
from posenc.parallel.ulysses import ulysses_attend as ulysses_attend
from posenc.positions import Documents as Documents
from posenc.positions import Positions as Positions
from posenc.positions import Tokens as Tokens
from posenc.positions.from_batch import positions_from as positions_from
from posenc.positions.plans import PerDocument as PerDocument
from posenc.positions.shard import shard as shard
from posenc.positions.shard import unshard as unshard

if TYPE_CHECKING:
    from posenc.testing import check_encoding as check_encoding

# Checks of shapes, which tests alone have, bring jaxtyping.
_NOT_NAMES = {"TYPE_CHECKING", "Any", "jaxtyping"}
__all__ = sorted({*dir(), "check_encoding"} - _NOT_NAMES)
__all__ = [name for name in __all__ if not name.startswith("_")]


def __getattr__(name: str) -> Any:
    # The check suite brings more than all the rest, and whoever attends needs none of it.
    if name == "check_encoding":
        from posenc.testing import check_encoding

        return check_encoding
    raise AttributeError(f"module 'posenc.api' has no attribute {name!r}")
