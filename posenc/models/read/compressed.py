"""DeepSeek V4: a window of keys, and behind it keys that each stand for several tokens."""

from collections.abc import Mapping
from typing import Any

from posenc.models.keys import LAYERS, Keys, Sourced
from posenc.models.read.decoder import by_head_dim, must_divide, stretched_from
from posenc.models.read.kinds import SLIDING, Kinds
from posenc.models.read.rope import Rope, rotary
from posenc.models.spec import LayerSpec, PartSpec

_BY_RATIO = {0: SLIDING, 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}


def read_compressed(keys: Keys) -> Mapping[str, PartSpec]:
    """One key head that is also the value; the last dimensions of queries and keys turn."""
    count, count_key = keys.whole("num_hidden_layers", most=LAYERS)
    kinds = _kinds(keys, count)
    shared = {kind: _layer(keys, kind, kinds.key) for kind in sorted(set(kinds.value))}
    layers = tuple(shared[kind] for kind in kinds.value)
    trained = keys.maybe_whole("max_position_embeddings")
    # Some files have no layer that reads it.
    keys.any("rope_theta")
    part = PartSpec(
        layers,
        trained_length=trained.value,
        original_length=stretched_from(layers),
        sources={"layers": count_key, "kinds": kinds.key, "trained_length": trained.key},
    )
    return {"text": part}


def _kinds(keys: Keys, count: int) -> Kinds:
    listed, key = keys.list("layer_types")
    ratios, ratios_key = keys.whole_numbers("compress_ratios")
    if listed is None and ratios is not None:
        if unknown := set(ratios) - set(_BY_RATIO):
            raise keys.wrong(ratios_key, min(unknown), "one of 0, 4 and 128")
        listed, key = [_BY_RATIO[x] for x in ratios], ratios_key
    if listed is None:
        dense, sparse = _BY_RATIO[128], _BY_RATIO[4]
        listed = [dense, dense, *((sparse if i % 2 else dense) for i in range(count))]
        key = f"default of {keys.owner}"
    # One more than the layers is for the head that predicts further tokens.
    if len(listed) < count or any(kind not in _BY_RATIO.values() for kind in listed):
        raise keys.wrong(key, listed, f"a kind for each of {count} layers")
    return Sourced(tuple(listed[:count]), key)


def _layer(keys: Keys, kind: str, kind_key: str) -> LayerSpec:
    heads, key_heads = keys.whole("num_attention_heads"), keys.whole("num_key_value_heads")
    must_divide(keys, heads.value, Sourced(key_heads.value, key_heads.key))
    head_dim, window = keys.whole("head_dim"), keys.whole("sliding_window")
    turned = keys.whole("qk_rope_head_dim", most=head_dim.value)
    scale = by_head_dim(keys, head_dim.value)
    settings, bases = _rope(keys, kind)
    at = Rope(settings, keys, bases)
    rests = head_dim.value - turned.value
    spec, sources = rotary(at, head_dim.value, "interleaved", (rests, turned.value))
    beyond = ["values turn with the keys, and outputs are turned back"]
    if kind != SLIDING:
        beyond.append("behind the window, each key stands for several tokens")
    return LayerSpec(
        encodings=(spec,),
        heads=heads.value,
        key_heads=key_heads.value,
        head_dim=head_dim.value,
        value_dim=head_dim.value,
        scale=scale.value,
        window=window.value,
        sink_logits=True,
        beyond=tuple(beyond),
        sources={
            "heads": heads.key,
            "key_heads": key_heads.key,
            "head_dim": head_dim.key,
            "value_dim": head_dim.key,
            "scale": scale.key,
            "kind": kind_key,
            "window": window.key,
            **{f"encoding.{name}": key for name, key in sources.items()},
        },
    )


def _rope(keys: Keys, kind: str) -> tuple[Keys, tuple[str, ...]]:
    """The rotation's keys of this kind of layer, and the names of its base."""
    name = "main" if kind == SLIDING else "compress"
    bases = ("rope_theta",) if kind == SLIDING else ("compress_rope_theta",)
    inner, older = keys.inside("rope_parameters"), keys.inside("rope_scaling")
    if inner is not None and (own := inner.inside(name)) is not None:
        return own, bases
    if kind == SLIDING:
        return Keys({}, owner=keys.owner), bases
    flat = inner or older
    if flat is None:
        return Keys({}, owner=keys.owner), bases
    # YaRN's gain is in neither cos nor sin here, whatever its formula says.
    silent: dict[str, Any] = {"attention_factor": 1.0}
    flat.silent = {**flat.silent, **silent}
    return flat, bases
