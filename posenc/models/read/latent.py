"""Models whose keys come from a latent vector, of which only the last dimensions turn (MLA)."""

from collections.abc import Mapping
from dataclasses import replace

from posenc.models.keys import Keys, Sourced
from posenc.models.read.decoder import Decoder, deepseek_scale, with_base
from posenc.models.read.rope import Sections
from posenc.models.spec import Layout


def _rope_interleave(keys: Keys) -> Layout:
    return "interleaved" if keys.flag("rope_interleave").value else "half"


def _of_each_head(keys: Keys, heads: int, kind: str) -> Sourced[int]:
    """HY 4's: a latent vector is unfolded into keys of each head, whatever a file says of fewer."""
    keys.any("num_key_value_heads")
    return Sourced(heads, "num_attention_heads")


_PICKED = "each query attends only the keys that an indexer picks"
_DEEPSEEK = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}

_HY4 = Decoder(
    with_base(10_000.0, qk_nope_head_dim=192, qk_rope_head_dim=64, v_head_dim=256),
    key_heads=_of_each_head,
    latent=True,
    scale=deepseek_scale,
    sink_logits=True,
    beyond=(_PICKED,),
)

_DEEPSEEK3 = Decoder(
    with_base(10_000.0, rope_interleave=True, **_DEEPSEEK),
    layout=_rope_interleave,
    latent=True,
    scale=deepseek_scale,
)

LATENT: Mapping[str, Decoder] = {
    "deepseek_v2": Decoder(
        with_base(10_000.0, **_DEEPSEEK), layout="interleaved", latent=True, scale=deepseek_scale
    ),
    "deepseek_v3": _DEEPSEEK3,
    "deepseek_v32": replace(_DEEPSEEK3, beyond=(_PICKED,)),
    "youtu": _DEEPSEEK3,
    # Files for the vendor's own code repeat the width of a query.
    "sarvam_mla": replace(_DEEPSEEK3, ignored=("q_head_dim",)),
    "hy_v4": _HY4,
    # Pairs lie otherwise in the weights of the model that sees images.
    "hy_v4_vl_text": replace(
        _HY4, layout="interleaved", sections=Sections((12, 10, 10), interleaved=True)
    ),
    "minicpm3": Decoder(
        with_base(10_000.0, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64),
        latent=True,
        scale=deepseek_scale,
    ),
}
