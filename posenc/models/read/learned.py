"""Models that add a trained or a sinusoidal vector to the input."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from posenc.models.keys import LAYERS, Keys, Sourced
from posenc.models.read.relative import read_jina
from posenc.models.read.stack import HEADS, LAYER_COUNT, WIDTH, learned, plain_layer, stack
from posenc.models.spec import EncodingSpec, LayerSpec, PartSpec

RESIZED = "trained rows are interpolated to the grid of the image"
_LENGTH = ("max_position_embeddings", "n_positions", "n_ctx")


def decodes(keys: Keys) -> bool:
    """Whether the file makes a decoder of BERT's code."""
    return keys.flag("is_decoder").value


def absolute(
    *,
    causal: bool | Callable[[Keys], bool],
    rows_before: int = 0,
    first_position: int = 0,
    width: tuple[str, ...] = WIDTH,
) -> Callable[[Keys], Mapping[str, PartSpec]]:
    """A table with a row for each token, and `rows_before` more that the key does not count.

    The first token reads row first_position. Where the key counts the rows before it too, as in
    RoBERTa, fewer tokens fit than it says.
    """

    def read(keys: Keys) -> Mapping[str, PartSpec]:
        length, key = keys.whole(*_LENGTH)
        rows = learned(keys, Sourced(length + rows_before, key), width)
        if keys.flag("sinusoidal_pos_embds").value:
            rows = EncodingSpec("sinusoidal", {"dim": rows.settings["dim"]})
        part = stack(
            keys,
            plain_layer(keys, causal=causal if isinstance(causal, bool) else causal(keys)),
            rows,
            trained=Sourced(length + rows_before - first_position, key),
            first_position=first_position,
        )
        return {"text": part}

    return read


def read_bert(keys: Keys) -> Mapping[str, PartSpec]:
    """BERT's, whose layers may have vectors by distance in the place of the table."""
    kind, key = keys.word("position_embedding_type")
    if kind in (None, "absolute"):
        return absolute(causal=decodes)(keys)
    if kind == "alibi":
        return read_jina(keys)
    if kind != "relative_key":
        raise keys.wrong(key, kind, "'absolute', 'relative_key' or 'alibi'")
    length = keys.whole(*_LENGTH)
    plain = plain_layer(keys, causal=decodes(keys))
    settings = {"dim": plain.head_dim, "clip": length.value - 1, "values": False}
    layer = replace(plain, encodings=(EncodingSpec("shaw", settings),))
    return {"text": stack(keys, layer, trained=length)}


def read_gpt_neo(keys: Keys) -> Mapping[str, PartSpec]:
    """GPT-Neo's: every second layer sees a window, and nothing divides the scores."""
    part = absolute(causal=True)(keys)["text"]
    count, _ = keys.whole(*LAYER_COUNT, most=LAYERS)
    window = keys.whole("window_size")
    kinds, key = keys.list("attention_layers")
    rounds, rounds_key = keys.list("attention_types")
    if kinds is None and rounds is not None:
        kinds, key = _unrolled(keys, rounds, count), rounds_key
    if kinds is None:
        kinds = ["local" if i % 2 else "global" for i in range(count)]
    if len(kinds) != count or any(kind not in ("global", "local") for kind in kinds):
        raise keys.wrong(key, kinds, f"{count} of 'global' and 'local'")
    scale = Sourced(1.0, f"always in {keys.owner}")
    everything = plain_layer(keys, scale=scale, causal=True)
    sources = {**everything.sources, "window": window.key}
    local = replace(everything, window=window.value, sources=sources)
    layers = tuple(local if kind == "local" else everything for kind in kinds)
    return {"text": replace(part, layers=layers)}


def _unrolled(keys: Keys, rounds: Sequence[Any], count: int) -> list[Any]:
    """What [names, how often] come to, one by one, as far as there are layers."""
    kinds = []
    for part in rounds:
        match part:
            case [[*names], int(times)] if names and 0 < times <= count:
                kinds += [*names] * times
            case _:
                raise keys.wrong("attention_types", part, "a list of [names, how often]")
        if len(kinds) > count:
            break
    return kinds


def _scaled_if_asked(keys: Keys) -> LayerSpec:
    """A layer of GPT-2's, which multiplies by d**-0.5 where scale_attn_weights says so."""
    asked, key = keys.flag("scale_attn_weights")
    return plain_layer(keys, scale=None if asked else Sourced(1.0, key), causal=True)


def read_gpt2(keys: Keys) -> Mapping[str, PartSpec]:
    """Each layer divides scores by its number, from 1, where the file says so."""
    part = absolute(causal=True)(keys)["text"]
    layer = _scaled_if_asked(keys)
    divides, key = keys.flag("scale_attn_by_inverse_layer_idx")
    if not divides:
        return {"text": replace(part, layers=(layer,) * len(part.layers))}
    sources = {**layer.sources, "scale": key}
    numbers = range(1, len(part.layers) + 1)
    layers = tuple(replace(layer, scale=layer.scale / n, sources=sources) for n in numbers)
    return {"text": replace(part, layers=layers)}


def read_bigcode(keys: Keys) -> Mapping[str, PartSpec]:
    """GPT-2's, and one key head for all heads where multi_query says so."""
    part = absolute(causal=True)(keys)["text"]
    single, key = keys.flag("multi_query")
    plain = _scaled_if_asked(keys)
    layer = replace(plain, key_heads=1 if single else plain.heads)
    layer = replace(layer, sources={**plain.sources, "key_heads": key})
    return {"text": replace(part, layers=(layer,) * len(part.layers))}


def read_mobilebert(keys: Keys) -> Mapping[str, PartSpec]:
    """BERT's table; heads share a narrower width."""
    part = absolute(causal=False)(keys)["text"]
    width, key = keys.whole("true_hidden_size")
    heads, _ = keys.whole(*HEADS)
    size = Sourced(width // heads, f"{key} / heads")
    layer = plain_layer(keys, head_dim=size, causal=False)
    return {"text": replace(part, layers=(layer,) * len(part.layers))}


def read_mpnet(keys: Keys) -> Mapping[str, PartSpec]:
    """RoBERTa's table, and T5's buckets in every layer."""
    part = absolute(causal=False, first_position=2)(keys)["text"]
    buckets, key = keys.whole("relative_attention_num_buckets", least=2)
    plain = plain_layer(keys, causal=False)
    settings = {"heads": plain.heads, "buckets": buckets, "bidirectional": True}
    spec = EncodingSpec("t5", settings)
    sources = {**plain.sources, "encoding.buckets": key}
    layer = replace(plain, encodings=(spec,), sources=sources)
    return {"text": replace(part, layers=(layer,) * len(part.layers))}


def read_vit(keys: Keys) -> Mapping[str, PartSpec]:
    """A row for each patch, and one for the token of the class."""
    return _patches(keys, 1)


def read_patches(keys: Keys) -> Mapping[str, PartSpec]:
    """A row for each patch."""
    return _patches(keys, 0)


def read_numbered(keys: Keys) -> Mapping[str, PartSpec]:
    """As many rows as the file says, resized to the grid of the image."""
    rows = keys.whole("num_patches")
    layer = replace(plain_layer(keys, causal=False), beyond=(RESIZED,))
    return {"vision": stack(keys, layer, learned(keys, rows), trained=rows)}


def _patches(keys: Keys, more: int) -> Mapping[str, PartSpec]:
    trained = grid_rows(keys, more)
    layer = plain_layer(keys, causal=False)
    return {"vision": stack(keys, layer, learned(keys, trained), trained=trained)}


def grid_rows(keys: Keys, more: int) -> Sourced[int]:
    """One row for each patch of an image, and `more` for tokens that are none."""
    image, patch = side(keys, "image_size"), side(keys, "patch_size")
    if image.value < patch.value:
        raise keys.wrong(patch.key, patch.value, f"at most {image.key} = {image.value}")
    count = (image.value // patch.value) ** 2 + more
    return Sourced(count, f"({image.key} / {patch.key})**2 + {more}")


def side(keys: Keys, name: str) -> Sourced[int]:
    """The side of a square, which may be written as two equal numbers."""
    value = keys.any(name).value
    if isinstance(value, list | tuple) and len(value) == 2 and value[0] == value[1]:
        return Keys({name: value[0]}).whole(name)
    return keys.whole(name)


def read_whisper(keys: Keys) -> Mapping[str, PartSpec]:
    """The decoder's rows are trained; the encoder's are sinusoids, sines first."""
    width, _ = keys.whole("d_model")
    sines = {"dim": width, "layout": "half", "denominator": "tensor2tensor"}
    target, source = keys.whole("max_target_positions"), keys.whole("max_source_positions")
    return {
        "decoder": _side_of(keys, "decoder", learned(keys, target), target),
        "encoder": _side_of(keys, "encoder", EncodingSpec("sinusoidal", sines), source),
    }


def read_bart(keys: Keys) -> Mapping[str, PartSpec]:
    """Trained rows in both stacks, with two before the first token."""
    length = keys.whole("max_position_embeddings")
    rows = learned(keys, Sourced(length.value + 2, length.key))
    return {
        name: replace(_side_of(keys, name, rows, length), first_position=2)
        for name in ("decoder", "encoder")
    }


def _side_of(keys: Keys, name: str, rows: EncodingSpec, trained: Sourced[int]) -> PartSpec:
    layer = plain_layer(keys, heads=(f"{name}_attention_heads",), causal=name == "decoder")
    return stack(keys, layer, rows, layers=(f"{name}_layers",), trained=trained)
