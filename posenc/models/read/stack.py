"""Parts whose layers are all alike."""

from posenc.models.keys import LAYERS, SIZES, Keys, Sourced
from posenc.models.read.decoder import HEADS, LAYER_COUNT, WIDTH, by_head_dim
from posenc.models.spec import EncodingSpec, LayerSpec, PartSpec


def plain_layer(
    keys: Keys,
    *encodings: EncodingSpec,
    heads: tuple[str, ...] = HEADS,
    head_dim: Sourced[int] | None = None,
    scale: Sourced[float] | None = None,
    causal: bool,
) -> LayerSpec:
    """A layer whose heads have keys of their own, as wide as the model by their number."""
    count, heads_key = keys.one_whole(*heads, most=SIZES)
    if head_dim is None:
        width, key = keys.one_whole(*WIDTH)
        if width % count:
            raise keys.wrong(heads_key, count, f"a divisor of {key} = {width}")
        head_dim = Sourced(width // count, f"{key} / heads")
    if not 1 <= head_dim.value <= SIZES:
        raise keys.wrong(head_dim.key, head_dim.value, f"from 1 to {SIZES} dimensions of a head")
    if scale is None:
        scale = by_head_dim(keys, head_dim.value)
    return LayerSpec(
        encodings=encodings,
        heads=count,
        key_heads=count,
        head_dim=head_dim.value,
        value_dim=head_dim.value,
        scale=scale.value,
        causal=causal,
        sources={
            "heads": heads_key,
            "key_heads": heads_key,
            "head_dim": head_dim.key,
            "value_dim": head_dim.key,
            "scale": scale.key,
        },
    )


def stack(
    keys: Keys,
    layer: LayerSpec,
    *embeddings: EncodingSpec,
    layers: tuple[str, ...] = LAYER_COUNT,
    trained: Sourced[int | None],
    first_position: int = 0,
) -> PartSpec:
    """As many of this layer as the configuration says."""
    count, key = keys.one_whole(*layers, most=LAYERS)
    return PartSpec(
        (layer,) * count,
        embeddings,
        trained_length=trained.value,
        first_position=first_position,
        sources={"layers": key, "trained_length": trained.key},
    )


def learned(keys: Keys, rows: Sourced[int], width: tuple[str, ...] = WIDTH) -> EncodingSpec:
    """A trained vector for each position, as wide as the model."""
    return EncodingSpec("learned", {"dim": keys.whole(*width).value, "max_length": rows.value})
