"""What llama.cpp does by itself, where configurations of transformers would say it."""

from dataclasses import replace
from typing import Any

from posenc.frequencies import magnitude
from posenc.models.keys import Keys, Sourced
from posenc.models.read.decoder import Decoder, ScaleRule, by_head_dim
from posenc.models.read.kinds import CHUNKED, FULL, SLIDING, Kinds, Rule, every, listed
from posenc.models.spec import EncodingSpec


def stated_scale(keys: Keys, head_dim: int) -> Sourced[float]:
    """attention.scale, or one by the root of the dimensions of a head; 0 says nothing."""
    value, key = keys.maybe_number("attention_multiplier")
    return Sourced(value, key) if value else by_head_dim(keys, head_dim)


def width_scale(layers: int) -> ScaleRule:
    """Gemma's: the one model of so many layers divides by the root of width / heads."""

    def rule(keys: Keys, head_dim: int) -> Sourced[float]:
        count, key = keys.whole("num_hidden_layers")
        if count != layers:
            return by_head_dim(keys, head_dim)
        heads, _ = keys.whole("num_attention_heads")
        width, _ = keys.whole("hidden_size", least=heads)
        return Sourced((width // heads) ** -0.5, f"{key} = {layers}: (width / heads)**-0.5")

    return rule


def gain_in_scale(keys: Keys, head_dim: int) -> Sourced[float]:
    """DeepSeek's: YaRN's gains, squared, are in the scale of all scores."""
    scale, key = by_head_dim(keys, head_dim)
    own = keys.inside("rope_scaling")
    if own is None or own.word("rope_type").value != "yarn":
        return Sourced(scale, key)
    factor = own.maybe_number("factor").value or 1.0
    stated = own.maybe_number("attention_factor").value
    strength, name = own.maybe_number("log_multiplier")
    turned = magnitude(factor, 1.0) if stated is None else stated
    # The converter writes a tenth of mscale_all_dim.
    gain = turned * magnitude(factor, 10 * (strength or 0.0))
    return Sourced(scale * gain**2, f"{key} * m({name})**2")


def inverse_scale(keys: Keys, head_dim: int) -> Sourced[float]:
    """One by the dimensions of a head, without the root."""
    return Sourced(1.0 / head_dim, f"always in {keys.owner}: 1 / head_dim")


def output_scale(keys: Keys, head_dim: int) -> Sourced[float]:
    """Grok's: a number of its own, within the bound on scores."""
    value, key = keys.maybe_number("attention.output_scale")
    return Sourced(1.0 if value is None else value, key)


def slides(decoder: Decoder, rhythm: int, first: bool = False, **more: Any) -> Decoder:
    """With a window all layers but one in `rhythm` slide: the last of them, or the first."""
    others = listed(every(FULL, SLIDING, "pattern", first=first))

    def rule(keys: Keys, count: int) -> Kinds:
        width = keys.maybe_whole("sliding_window", least=0)
        if not width.value:
            return Sourced((FULL,) * count, width.key)
        return others(keys, count)

    return replace(decoder, silent={**decoder.silent, "pattern": rhythm}, kinds=rule, **more)


def every_fourth(kind: str) -> Rule:
    """The last layer of each four sees everything, or of as many as the file says."""
    return listed(every(FULL, kind, "full_attention_interval"))


def large_slides(decoder: Decoder) -> Decoder:
    """EXAONE 4's: of its models the one with 64 layers slides, or the one that lists layers."""
    sliding = slides(decoder, 4)

    def rule(keys: Keys, count: int) -> Kinds:
        if count == 64 or keys.given("layer_types"):
            return sliding.kinds(keys, count)
        return Sourced((FULL,) * count, keys.whole("num_hidden_layers").key)

    return replace(sliding, kinds=rule)


def chunked(keys: Keys, count: int) -> Kinds:
    """Llama 4's: three of four layers see their chunk, and a window of 0 says that none does."""
    width, key = keys.maybe_whole("sliding_window", least=0)
    if width == 0:
        return Sourced((FULL,) * count, key)
    kinds = tuple(FULL if (i + 1) % 4 == 0 else CHUNKED for i in range(count))
    return Sourced(kinds, f"always in {keys.owner}")


def chunks_turn(keys: Keys, kinds: tuple[str, ...]) -> tuple[bool, ...]:
    """Llama 4's: where there are chunks, what sees everything does not turn."""
    return tuple(kind == CHUNKED or CHUNKED not in kinds for kind in kinds)


def three_of_four_turn(keys: Keys, kinds: tuple[str, ...]) -> tuple[bool, ...]:
    """The last layer of each four does not turn."""
    return tuple((i + 1) % 4 != 0 for i in range(len(kinds)))


def where_asked(keys: Keys, kinds: tuple[str, ...]) -> tuple[bool, ...]:
    """Granite's: rope.scaling.finetuned is its switch of the rotation."""
    asked = keys.any("rope.scaling.finetuned").value is not False
    return (asked,) * len(kinds)


def small_turns(keys: Keys, kinds: tuple[str, ...]) -> tuple[bool, ...]:
    """Baichuan's: the model of 40 layers has a bias in the place of the rotation."""
    return (len(kinds) != 40,) * len(kinds)


def llama4_temper(keys: Keys, turns: bool) -> EncodingSpec | None:
    """Queries that do not turn grow with the position, where there are chunks."""
    if turns or keys.any("sliding_window").value == 0:
        return None
    settings = {"kind": "llama4", "original_length": 8192, "strength": 0.1}
    return EncodingSpec("temperature", settings)


def ministral_temper(keys: Keys, turns: bool) -> EncodingSpec | None:
    """Queries grow with each trained length that went by, or with each of a length of its own."""
    strength = keys.maybe_number("attention.temperature_scale").value
    if not strength:
        return None
    own = keys.inside("rope_scaling")
    stated = keys.maybe_whole("attention.temperature_length").value
    if stated is None and own is not None:
        stated = own.maybe_whole("original_max_position_embeddings").value
    length = stated or keys.whole("max_position_embeddings").value
    settings = {"kind": "ministral", "original_length": length, "strength": strength}
    return EncodingSpec("temperature", settings)


def own_keys(keys: Keys, heads: int, kind: str) -> Sourced[int]:
    """Each head has keys of its own, made of one latent vector."""
    return Sourced(heads, f"always in {keys.owner}: keys come from a latent vector")


def head_dim_by_kind(keys: Keys, heads: int, kind: str) -> Sourced[int]:
    """Gemma 4's: heads of layers that slide have a size of their own."""
    return keys.whole("key_length_swa") if kind == SLIDING else keys.whole("head_dim")
