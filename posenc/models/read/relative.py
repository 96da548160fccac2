"""Models whose scores read the distance of two tokens."""

from collections.abc import Mapping
from dataclasses import replace

from posenc.models.keys import SIZES, Keys, Sourced
from posenc.models.read.decoder import Decoder, read_decoder
from posenc.models.read.kinds import FULL
from posenc.models.read.stack import HEADS, learned, plain_layer, stack
from posenc.models.spec import EncodingSpec, PartSpec


def read_bloom(keys: Keys) -> Mapping[str, PartSpec]:
    """ALiBi in every layer."""
    # Of the training framework; the code never asks.
    keys.any("offset_alibi")
    heads = keys.whole(*HEADS, most=SIZES).value
    trained = keys.maybe_whole("seq_length")
    layer = plain_layer(keys, EncodingSpec("alibi", {"heads": heads}), causal=True)
    return {"text": stack(keys, layer, trained=trained)}


def read_mpt(keys: Keys) -> Mapping[str, PartSpec]:
    """ALiBi, or a trained table where attn_config says so."""
    inner = keys.inside("attn_config") or Keys({}, owner=keys.owner)
    heads = keys.whole(*HEADS, most=SIZES).value
    trained = keys.maybe_whole("max_seq_len")
    largest, key = inner.maybe_number("alibi_bias_max")
    asked = inner.flag("alibi").value or not inner.given("alibi")
    scale, scale_key = inner.maybe_number("softmax_scale")
    own = None if scale is None else Sourced(scale, scale_key)
    if not asked:
        layer = plain_layer(keys, scale=own, causal=True)
        rows = learned(keys, keys.whole("max_seq_len"))
        return {"text": stack(keys, layer, rows, trained=trained)}
    settings: dict[str, object] = {"heads": heads}
    if largest is not None and largest != 8:
        settings["slopes"] = mpt_slopes(heads, largest)
    layer = plain_layer(keys, EncodingSpec("alibi", settings), scale=own, causal=True)
    layer = replace(layer, sources={**layer.sources, "encoding.slopes": key})
    return {"text": stack(keys, layer, trained=trained)}


def mpt_slopes(heads: int, largest: float) -> tuple[float, ...]:
    """Slopes 2**(-largest * i / n), n the next power of two, every second one first."""
    count = 1 << (heads - 1).bit_length()
    slopes = [2.0 ** (-largest * i / count) for i in range(1, count + 1)]
    return tuple((slopes if count == heads else slopes[1::2] + slopes[::2])[:heads])


def read_jina(keys: Keys) -> Mapping[str, PartSpec]:
    """Jina's BERT: ALiBi to both sides."""
    spec = EncodingSpec("alibi", {"heads": keys.whole(*HEADS, most=SIZES).value})
    layer = plain_layer(keys, spec, causal=False)
    trained = keys.maybe_whole("max_position_embeddings")
    # Files say it once more for the tokenizer.
    keys.any("model_max_length")
    return {"text": stack(keys, layer, trained=trained)}


def _falcon_key_heads(keys: Keys, heads: int, kind: str = FULL) -> Sourced[int]:
    several, key = keys.flag("new_decoder_architecture")
    single, single_key = keys.flag("multi_query")
    count, count_key = keys.maybe_whole("num_kv_heads", "n_head_kv")
    if several:
        return Sourced(heads if count is None else count, count_key)
    return Sourced(1, single_key) if single else Sourced(heads, key)


def read_falcon(keys: Keys) -> Mapping[str, PartSpec]:
    """Rotary or ALiBi; of key heads there are as many as of heads, fewer, or one."""
    if not keys.flag("alibi").value:
        return {"text": read_decoder(keys, Decoder(key_heads=_falcon_key_heads))}
    heads, _ = keys.whole(*HEADS)
    key_heads = _falcon_key_heads(keys, heads)
    # Falcon divides the bias too.
    spec = EncodingSpec("alibi", {"heads": heads, "inside": True})
    layer = replace(plain_layer(keys, spec, causal=True), key_heads=key_heads.value)
    return {"text": stack(keys, layer, trained=keys.maybe_whole("max_position_embeddings"))}


def read_t5(keys: Keys) -> Mapping[str, PartSpec]:
    """One table of buckets for the encoder and one for the decoder, in their first layers."""
    heads = keys.whole("num_heads").value
    buckets, key = keys.whole("relative_attention_num_buckets", least=2)
    largest, largest_key = keys.whole("relative_attention_max_distance")
    parts = {}
    for name, count in (("decoder", "num_decoder_layers"), ("encoder", "num_layers")):
        settings = {
            "heads": heads,
            "buckets": buckets,
            "max_distance": largest,
            "bidirectional": name == "encoder",
        }
        layer = plain_layer(
            keys,
            EncodingSpec("t5", settings),
            head_dim=keys.whole("d_kv"),
            scale=Sourced(1.0, f"always in {keys.owner}"),
            causal=name == "decoder",
        )
        sources = {"encoding.buckets": key, "encoding.max_distance": largest_key}
        layer = replace(layer, sources={**layer.sources, **sources})
        trained = keys.maybe_whole("n_positions")
        depth = count if keys.given(count) else "num_layers"
        parts[name] = stack(keys, layer, layers=(depth,), trained=trained)
    return parts


def read_deberta(keys: Keys) -> Mapping[str, PartSpec]:
    """Disentangled attention of any version, with or without a trained table at the input."""
    length = keys.whole("max_position_embeddings")
    encodings = []
    plain = plain_layer(keys, causal=False)
    span, _ = keys.maybe_whole("max_relative_positions", least=-1)
    if keys.flag("relative_attention").value:
        buckets, _ = keys.maybe_whole("position_buckets", least=-1)
        kinds, key = keys.any("pos_att_type")
        if isinstance(kinds, str):
            kinds = kinds.split("|")
        if not isinstance(kinds, list) or any(x not in ("c2p", "p2c") for x in kinds):
            raise keys.wrong(key, kinds, "of 'c2p' and 'p2c'")
        settings = {
            "dim": keys.whole("hidden_size").value,
            "heads": plain.heads,
            "span": span if span is not None and span > 0 else length.value,
            "buckets": buckets if buckets is not None and buckets > 0 else None,
            "terms": tuple(x for x in ("c2p", "p2c") if x in kinds),
            "projections": "layer" if keys.flag("share_att_key").value else "own",
            "norm": "layer_norm" in (keys.word("norm_rel_ebd").value or ""),
        }
        encodings.append(EncodingSpec("deberta", settings))
    layer = replace(plain, encodings=tuple(encodings))
    rows = [learned(keys, length)] if keys.flag("position_biased_input").value else []
    return {"text": stack(keys, layer, *rows, trained=length)}


def read_xlnet(keys: Keys) -> Mapping[str, PartSpec]:
    """Transformer-XL's sinusoids of the distance."""
    width, heads = keys.whole("d_model").value, keys.whole("n_head").value
    head_dim, key = keys.maybe_whole("d_head")
    if head_dim is None:
        head_dim, key = width // heads, "d_model / n_head"
    size = Sourced(head_dim, key)
    clamp, _ = keys.maybe_whole("clamp_len", least=-1)
    settings = {"dim": width, "heads": heads, "head_dim": size.value}
    if clamp is not None and clamp > 0:
        settings["clamp"] = clamp
    causal = keys.word("attn_type").value == "uni"
    layer = plain_layer(
        keys, EncodingSpec("transformer_xl", settings), head_dim=size, causal=causal
    )
    nothing = Sourced(None, "no limit")
    return {"text": stack(keys, layer, trained=nothing)}
