"""Models whose keys come from a latent vector, of which only the last dimensions turn (MLA)."""

from collections.abc import Mapping

from posenc.models.keys import Keys
from posenc.models.read.decoder import Decoder, deepseek_scale, with_base
from posenc.models.spec import Layout


def _rope_interleave(keys: Keys) -> Layout:
    return "interleaved" if keys.flag("rope_interleave").value else "half"


_DEEPSEEK = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}

LATENT: Mapping[str, Decoder] = {
    "deepseek_v2": Decoder(
        with_base(10_000.0, **_DEEPSEEK), layout="interleaved", latent=True, scale=deepseek_scale
    ),
    "deepseek_v3": Decoder(
        with_base(10_000.0, rope_interleave=True, **_DEEPSEEK),
        layout=_rope_interleave,
        latent=True,
        scale=deepseek_scale,
    ),
    "deepseek_v32": Decoder(
        with_base(10_000.0, rope_interleave=True, **_DEEPSEEK),
        layout=_rope_interleave,
        latent=True,
        scale=deepseek_scale,
        beyond=("each query attends only the keys that an indexer picks",),
    ),
    "minicpm3": Decoder(
        with_base(10_000.0, qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64),
        latent=True,
        scale=deepseek_scale,
    ),
}
