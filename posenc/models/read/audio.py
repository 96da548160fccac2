"""Models that hear."""

from collections.abc import Mapping
from dataclasses import replace

from posenc.models.keys import Keys, Sourced
from posenc.models.read.decoder import must_divide
from posenc.models.read.rope import Rope, rotary
from posenc.models.read.stack import plain_layer, stack
from posenc.models.spec import EncodingSpec, LayerSpec, PartSpec

# Where a rotation is not between queries and keys; posenc's has no such setting.
_BEFORE = {"before_projections": True}
_NOTHING: Sourced[int | None] = Sourced(None, "no limit")


def read_wav2vec2(keys: Keys) -> Mapping[str, PartSpec]:
    """A convolution over the frames, which is added to them."""
    width, _ = keys.whole("hidden_size")
    settings = {
        "dim": width,
        "kernel": keys.whole("num_conv_pos_embeddings").value,
        "groups": keys.whole("num_conv_pos_embedding_groups").value,
    }
    layer = plain_layer(keys, causal=False)
    return {"audio": stack(keys, layer, EncodingSpec("convolution", settings), trained=_NOTHING)}


def read_conformer(keys: Keys) -> Mapping[str, PartSpec]:
    """Transformer-XL's sinusoids, or a rotation of what queries and keys are projected from."""
    kind, key = keys.word("position_embeddings_type")
    plain = plain_layer(keys, causal=False)
    specs = ()
    if kind == "relative":
        settings = {"dim": plain.heads * plain.head_dim, "heads": plain.heads}
        specs = (EncodingSpec("transformer_xl", {**settings, "head_dim": plain.head_dim}),)
    elif kind == "rotary":
        specs = (_turned_before(keys, plain),)
    elif kind is not None:
        raise keys.wrong(key, kind, "'relative', 'rotary' or null")
    layer = replace(plain, encodings=specs, sources={**plain.sources, "encoding": key})
    return {"audio": stack(keys, layer, trained=_reach(keys, kind))}


def read_wav2vec2_bert(keys: Keys) -> Mapping[str, PartSpec]:
    """Vectors per clipped distance for the keys, or a rotation, or Transformer-XL's sinusoids."""
    kind, key = keys.word("position_embeddings_type")
    if kind != "relative_key":
        return read_conformer(keys)
    plain = plain_layer(keys, causal=False)
    left, _ = keys.whole("left_max_position_embeddings")
    right, _ = keys.whole("right_max_position_embeddings")
    # It stands in the file, and only the other kinds read it.
    keys.any("rotary_embedding_base")
    settings = {"dim": plain.head_dim, "clip": left, "future": right, "values": False}
    sources = {**plain.sources, "encoding": key}
    layer = replace(plain, encodings=(EncodingSpec("shaw", settings),), sources=sources)
    return {"audio": stack(keys, layer, trained=_reach(keys, kind))}


def read_moonshine(keys: Keys) -> Mapping[str, PartSpec]:
    """An encoder and a decoder that both turn; what the decoder hears is not turned."""
    trained = keys.maybe_whole("max_position_embeddings")
    # Heads are padded for the kernel, and their scale and rotation are not.
    keys.any("pad_head_dim_to_multiple_of")
    parts = {}
    for name in ("decoder", "encoder"):
        plain = plain_layer(keys, heads=(f"{name}_num_attention_heads",), causal=name == "decoder")
        count, key = keys.maybe_whole(f"{name}_num_key_value_heads")
        must_divide(keys, plain.heads, Sourced(count, key))
        own = keys.inside("rope_parameters") or keys.inside("rope_scaling") or Keys({})
        spec, sources = rotary(Rope(own, keys), plain.head_dim, "interleaved")
        sources = {f"encoding.{setting}": source for setting, source in sources.items()}
        layer = replace(
            plain,
            encodings=(spec,),
            key_heads=count or plain.heads,
            sources={**plain.sources, **sources, "key_heads": key},
        )
        parts[name] = stack(keys, layer, layers=(f"{name}_num_hidden_layers",), trained=trained)
    return parts


def _turned_before(keys: Keys, plain: LayerSpec) -> EncodingSpec:
    base, key = keys.maybe_number("rotary_embedding_base", least=1.0)
    if base is None:
        raise keys.wrong(key, base, "a base")
    settings = {"dim": plain.head_dim, "base": base, "layout": "half"}
    return EncodingSpec("rotary", {**settings, **_BEFORE})


def _reach(keys: Keys, kind: str | None) -> Sourced[int | None]:
    """What the file says is asked by the sinusoids alone, which are made for so many frames."""
    said = keys.maybe_whole("max_source_positions")
    keys.any("rotary_embedding_base")
    return said if kind == "relative" else _NOTHING
