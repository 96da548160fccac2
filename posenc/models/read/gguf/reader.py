"""What a GGUF file says of positions, and what llama.cpp does besides."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from posenc.errors import ConfigError, UnknownNameError
from posenc.models.keys import LAYERS, MOST, Keys, Sourced
from posenc.models.read.decoder import read_decoder
from posenc.models.read.gguf.architectures import (
    ARCHITECTURES,
    ENCODER_DECODERS,
    STATEFUL,
    Architecture,
)
from posenc.models.read.gguf.header import GGUFHeader, read_gguf_header
from posenc.models.read.gguf.keys import (
    OWNER,
    HeadCounts,
    head_counts,
    layer_count,
    renamed,
    stated_keys,
    translated,
)
from posenc.models.read.relative import mpt_slopes, read_t5
from posenc.models.spec import EncodingSpec, LayerSpec, ModelSpec, PartSpec

ROWS = "position_embd.weight"
# Keys that tell nothing of positions, whatever they look like; some architectures read the first.
_OTHER = (
    "rope.scaling.finetuned",
    "attention.shared_kv_layers",
)
_T5 = {
    "num_heads": "attention.head_count",
    "d_kv": "attention.key_length",
    "relative_attention_num_buckets": "attention.relative_buckets_count",
    "num_layers": "block_count",
    "num_decoder_layers": "decoder_block_count",
    "n_positions": "context_length",
}


def read_gguf(path: Path) -> ModelSpec:
    """What llama.cpp does with positions in the model of this file.

    Raises ConfigError for a file that is damaged or contradicts itself, UnknownNameError for an
    architecture that posenc does not know.
    """
    header = read_gguf_header(path)
    name = architecture_name(header)
    stated = stated_keys(header, name)
    if name in STATEFUL:
        blocks = stated.whole("block_count", most=LAYERS)
        nothing = PartSpec((None,) * blocks.value, sources={"layers": blocks.key})
        return ModelSpec(name, {"text": nothing}, stated.unread(), str(path))
    if name in ENCODER_DECODERS:
        parts, unread = _encoder_decoder(stated, name)
        return ModelSpec(name, parts, unread, str(path))
    architecture = architecture_of(header)
    keys = translated(header, stated, architecture, layer_count(stated, architecture))
    part = _part(header, name, architecture, stated, keys)
    keys.any(*_OTHER, f"{name}.expert_chunk_feed_forward_length")
    if architecture.alibi(len(part.layers)):
        keys.any("attention.max_alibi_bias")
    label = "text" if architecture.decoder.causal else "encoder"
    return ModelSpec(name, {label: part}, keys.unread(), str(path))


def architecture_name(header: GGUFHeader) -> str:
    """general.architecture of the file."""
    name = header.values.get("general.architecture")
    if not isinstance(name, str):
        raise ConfigError(
            f"{header.path} has no general.architecture: of a file in several parts give the first"
        )
    return name


def architecture_of(header: GGUFHeader) -> Architecture:
    """What llama.cpp does with files of this architecture. Raises UnknownNameError."""
    name = architecture_name(header)
    if name not in ARCHITECTURES:
        known = {*ARCHITECTURES, *STATEFUL, *ENCODER_DECODERS}
        raise UnknownNameError("architecture of llama.cpp", name, known)
    architecture = ARCHITECTURES[name]
    if name in ("glm4", "glm4moe") and f"{name}.rope.dimension_sections" in header.values:
        # With sections for time, height and width their converter reorders to halves.
        return replace(architecture, decoder=ARCHITECTURES["qwen2vl"].decoder)
    return architecture


def _part(
    header: GGUFHeader, name: str, architecture: Architecture, stated: Keys, keys: Keys
) -> PartSpec:
    count, count_key = keys.whole("num_hidden_layers")
    counts = head_counts(stated, count)
    if counts.first() is None:
        trained = keys.maybe_whole("max_position_embeddings")
        sources = {"layers": count_key, "trained_length": trained.key}
        return PartSpec((None,) * count, trained_length=trained.value, sources=sources)
    decoder = architecture.decoder
    if keys.given("attention.causal"):
        decoder = replace(decoder, causal=keys.flag("attention.causal").value)
    part = read_decoder(keys, decoder)
    correct = _correction(architecture, stated, name, count)
    layers = tuple(correct(layer, counts, i) for i, layer in enumerate(part.layers))
    original = part.original_length
    if _has_table(keys) and not stated.given("rope.scaling.original_context_length"):
        # Of one table for every length nothing was stretched that anybody could name.
        original = None
    return replace(
        part,
        layers=layers,
        original_length=original,
        embeddings=_rows(header, keys, architecture),
    )


def _correction(
    architecture: Architecture, stated: Keys, name: str, count: int
) -> Callable[[LayerSpec | None, HeadCounts, int], LayerSpec | None]:
    """What of a layer no configuration says: heads of its own, the bias, what made the layout."""
    value: Sourced[int | None] = Sourced(None, "")
    if not architecture.decoder.latent and not architecture.whole_heads:
        value = stated.maybe_whole("attention.value_length")
    largest = _largest_bias(stated, architecture, count)
    layout = f"pairs of {name!r} in {OWNER}"
    if architecture.permuted:
        layout += ", whose converter interleaves q and k of transformers' files"

    def correct(layer: LayerSpec | None, counts: HeadCounts, i: int) -> LayerSpec | None:
        heads, key_heads = counts.heads[i], counts.key_heads[i]
        if layer is None or not heads or not key_heads:
            return None
        if architecture.decoder.latent:
            key_heads = heads
        if heads % key_heads:
            raise stated.wrong(
                f"{name}.attention.head_count_kv", key_heads, f"a divisor of the {heads} heads"
            )
        encodings, sources = layer.encodings, dict(layer.sources)
        if layer.rotary is not None:
            sources["encoding.layout"] = layout
        if largest.value:
            settings: dict[str, object] = {"heads": heads}
            if largest.value != 8:
                settings["slopes"] = mpt_slopes(heads, largest.value)
            encodings += (EncodingSpec("alibi", settings),)
            sources["encoding.slopes"] = largest.key
        if value.value is not None:
            layer, sources["value_dim"] = replace(layer, value_dim=value.value), value.key
        return replace(
            layer, encodings=encodings, heads=heads, key_heads=key_heads, sources=sources
        )

    return correct


def _largest_bias(stated: Keys, architecture: Architecture, count: int) -> Sourced[float]:
    silent = architecture.alibi(count)
    value, key = stated.maybe_number("attention.max_alibi_bias")
    if not silent or value is None:
        return Sourced(silent, f"always in {OWNER}")
    return Sourced(value, key)


def _has_table(keys: Keys) -> bool:
    scaling = keys.values.get("rope_scaling") or {}
    return scaling.get("rope_type") == "longrope"


def _rows(header: GGUFHeader, keys: Keys, architecture: Architecture) -> tuple[EncodingSpec, ...]:
    """The trained vectors that are in the file, or that have to be."""
    stored = header.tensors.get(ROWS)
    if not architecture.rows or (stored is None and architecture.alibi(0)):
        return ()
    shape = stored.shape if stored else ()
    if stored is None:
        shape = keys.whole("hidden_size").value, keys.whole("max_position_embeddings").value
    if len(shape) != 2 or not all(0 < x <= MOST for x in shape):
        raise ConfigError(f"{header.path}: {ROWS} has the shape {list(shape)}: two axes are needed")
    return (EncodingSpec("learned", {"dim": shape[0], "max_length": shape[1]}),)


def _encoder_decoder(stated: Keys, name: str) -> tuple[dict[str, PartSpec], tuple[str, ...]]:
    """T5's table of buckets, whose largest distance llama.cpp has in its code."""
    own, rest = renamed(stated, _T5)
    names = {key: stated.path + key for key in rest if not key.startswith(stated.path)}
    names |= {key: stated.path + old for key, old in _T5.items()}
    keys = Keys(rest | own, {"relative_attention_max_distance": 128}, owner=OWNER, names=names)
    parts = dict(read_t5(keys))
    if name == "t5encoder":
        del parts["decoder"]
    return parts, keys.unread()
