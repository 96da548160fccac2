"""Models whose queries and keys turn: what their code does, and how their files are read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from posenc.frequencies import magnitude
from posenc.models.keys import LAYERS, SIZES, Keys, Sourced
from posenc.models.read.kinds import CHUNKED, FULL, SLIDING, STATES, Rule, alike, listed, sees_ahead
from posenc.models.read.rope import Scalings, Sections, rope, rotary
from posenc.models.spec import EncodingSpec, LayerSpec, Layout, PartSpec

Turned = Callable[[Keys, tuple[str, ...]], tuple[bool, ...]]
Sources = Mapping[str, str]
Revision = Callable[[Keys, EncodingSpec], tuple[EncodingSpec, Sources]]
ScaleRule = Callable[[Keys, int], Sourced[float]]


LENGTHS = (
    "model_max_length",
    "max_position_embeddings",
    "n_positions",
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
)


def all_turn(keys: Keys, kinds: tuple[str, ...]) -> tuple[bool, ...]:
    """Every layer has its rotation."""
    return (True,) * len(kinds)


def none_turns(keys: Keys, kinds: tuple[str, ...]) -> tuple[bool, ...]:
    """No layer has a rotation, whatever else the file says of one."""
    keys.any("rope_theta")
    keys.any("partial_rotary_factor")
    return (False,) * len(kinds)


def as_it_is(keys: Keys, spec: EncodingSpec) -> tuple[EncodingSpec, Sources]:
    """The rotation, and nothing more to say of it."""
    return spec, {}


def by_head_dim(keys: Keys, head_dim: int) -> Sourced[float]:
    """One by the root of the dimensions of a head."""
    return Sourced(head_dim**-0.5, "head_dim**-0.5")


def several_key_heads(keys: Keys, heads: int, kind: str) -> Sourced[int]:
    """As many as the file says; as many as heads where it says nothing."""
    count, key = keys.maybe_whole("num_key_value_heads", "num_kv_heads")
    return Sourced(heads if count is None else count, key)


def must_divide(keys: Keys, heads: int, key_heads: Sourced[int | None]) -> None:
    """Raise ConfigError for key heads that do not serve as many heads each."""
    count, key = key_heads
    if count is not None and heads % count:
        raise keys.wrong(key, count, f"a divisor of the {heads} heads")


def even_share(keys: Keys, heads: int, kind: str) -> Sourced[int]:
    """What the file says, or the width of the model by the number of heads."""
    value, key = keys.maybe_whole("head_dim", "kv_channels", "attention_head_dim", most=SIZES)
    if value is not None:
        return Sourced(value, key)
    width, key = keys.one_whole(*WIDTH)
    if not heads <= width < heads * (SIZES + 1):
        wanted = f"at least one dimension for each of {heads} heads, and at most {SIZES},"
        raise keys.wrong(key, width, wanted)
    return Sourced(width // heads, f"{key} / heads")


def causal_window(keys: Keys) -> Sourced[int]:
    """How many tokens are seen, the own one among them."""
    width, key = keys.whole("sliding_window", "sliding_window_size")
    # Masks to both sides do not count the token itself.
    return Sourced(width + 1, f"{key} + 1") if sees_ahead(keys) else Sourced(width, key)


def both_ways(name: str) -> Callable[[Keys], Sourced[int]]:
    """Half of the width under this key to each side, and the token itself."""

    def rule(keys: Keys) -> Sourced[int]:
        width, key = keys.whole(name)
        return Sourced(width // 2 + 1, f"{key} / 2 + 1")

    return rule


@dataclass(frozen=True)
class Decoder:
    """What the code of a model type does, as far as its configuration does not say.

    silent are its defaults by key. bases are the names of the base by kind of layer. scaled are
    the kinds that an older file's rope_scaling is meant for; None is all. latent: keys come from
    a latent vector, and only the last dimensions of a head turn (MLA). sections: how pairs are
    dealt out to time, height and width. scalings: types of scaling that mean something else here.
    silent_ropes: what the code takes for a kind of layer where the file has no rope_parameters at
    all. revised: what the code makes of the rotation besides. beyond is what every layer does that
    nothing else says, and beside what a file asks of it so. ignored: keys that files have and
    the code never asks for. lengths are the names of the trained length, the first that is there.
    opened: whether a file lets tokens see those behind them, though others of its type do not.
    """

    silent: Mapping[str, Any] = field(default_factory=dict)
    layout: Layout | Callable[[Keys], Layout] = "half"
    kinds: Rule = field(default_factory=lambda: listed(alike(FULL)))
    turned: Turned = all_turn
    scale: ScaleRule = by_head_dim
    bases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scaled: frozenset[str] | None = None
    key_heads: Callable[[Keys, int, str], Sourced[int]] = several_key_heads
    head_dim: Callable[[Keys, int, str], Sourced[int]] = even_share
    window: Callable[[Keys], Sourced[int]] = causal_window
    temper: Callable[[Keys, bool], EncodingSpec | None] = lambda keys, turns: None
    silent_ropes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    scalings: Scalings = field(default_factory=dict)
    sections: Sections | None = None
    revised: Revision = as_it_is
    lengths: tuple[str, ...] = LENGTHS
    sink_logits: bool = False
    latent: bool = False
    beyond: tuple[str, ...] = ()
    beside: Callable[[Keys], tuple[str, ...]] = lambda keys: ()
    ignored: tuple[str, ...] = ()
    causal: bool = True
    opened: Callable[[Keys], bool] = sees_ahead


def with_base(theta: float, **silent: object) -> dict[str, object]:
    """What code takes where a file is silent: this base, and the others."""
    return {"rope_theta": theta, **silent}


HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
WIDTH = ("hidden_size", "n_embd", "n_embed", "d_model", "dim")
LAYER_COUNT = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
BASES = ("rope_theta", "rotary_emb_base")


def read_decoder(keys: Keys, family: Decoder) -> PartSpec:
    """The layers of a configuration of this family."""
    count, count_key = layer_count(keys)
    kinds, kinds_key = family.kinds(keys, count)
    turned = family.turned(keys, kinds)
    shared: dict[tuple[str, bool], LayerSpec | None] = {}
    layers = []
    for kind, turns in zip(kinds, turned, strict=True):
        if (kind, turns) not in shared:
            shared[kind, turns] = _layer(keys, family, kind, turns, kinds_key)
        layers.append(shared[kind, turns])
    for name in family.ignored:
        keys.any(name)
    trained = keys.maybe_whole(*family.lengths)
    # Some files say it of models that nobody stretched.
    keys.any("original_max_position_embeddings")
    return PartSpec(
        tuple(layers),
        trained_length=trained.value,
        original_length=stretched_from(layers),
        sources={"layers": count_key, "kinds": kinds_key, "trained_length": trained.key},
    )


def layer_count(keys: Keys) -> Sourced[int]:
    """What the file says, or the length of its list of layers."""
    listed, key = keys.list("layer_types", "layers_block_type")
    if listed and not any(keys.given(name) for name in LAYER_COUNT):
        return Sourced(len(listed), key)
    return keys.one_whole(*LAYER_COUNT, most=LAYERS)


def _layer(keys: Keys, family: Decoder, kind: str, turns: bool, kinds_key: str) -> LayerSpec | None:
    if kind in STATES:
        return None
    if kind not in (FULL, SLIDING, CHUNKED):
        raise keys.wrong(
            kinds_key, kind, f"one of {', '.join((FULL, SLIDING, CHUNKED, *sorted(STATES)))}"
        )
    heads, heads_key = keys.one_whole(*HEADS, most=SIZES)
    key_heads = family.key_heads(keys, heads, kind)
    sources = {"heads": heads_key, "key_heads": key_heads.key, "kind": kinds_key}
    must_divide(keys, heads, key_heads)
    latent = None
    if family.latent:
        rests, rests_key = keys.whole("qk_nope_head_dim", most=SIZES)
        last, last_key = keys.whole("qk_rope_head_dim", most=SIZES)
        value = keys.whole("v_head_dim")
        # Files repeat under these names what the two add up to, or the part that turns.
        keys.any("qk_head_dim", "head_dim")
        latent, head_dim = (rests, last), Sourced(rests + last, f"{rests_key} + {last_key}")
        sources["value_dim"] = value.key
    else:
        head_dim = family.head_dim(keys, heads, kind)
        value = head_dim
    sources["head_dim"] = head_dim.key
    encodings = []
    at = None
    if turns:
        scaled = family.scaled is None or kind in family.scaled
        silent = family.silent_ropes.get(kind)
        at = rope(keys, kind, family.bases.get(kind, BASES), scaled, silent)
    if at is not None:
        layout = family.layout if isinstance(family.layout, str) else family.layout(keys)
        spec, own = rotary(at, head_dim.value, layout, latent, family.sections, family.scalings)
        spec, revised = family.revised(keys, spec)
        encodings.append(spec)
        sources |= {f"encoding.{name}": key for name, key in {**own, **revised}.items()}
    if (spec := family.temper(keys, turns)) is not None:
        encodings.append(spec)
    scale, scale_key = family.scale(keys, head_dim.value)
    window = chunk = None
    if kind == SLIDING:
        window, sources["window"] = family.window(keys)
    if kind == CHUNKED:
        chunk, sources["chunk"] = keys.whole("attention_chunk_size")
    return LayerSpec(
        encodings=tuple(encodings),
        heads=heads,
        key_heads=key_heads.value,
        head_dim=head_dim.value,
        value_dim=value.value,
        scale=scale,
        causal=family.causal and not family.opened(keys),
        window=window,
        chunk=chunk,
        sink_logits=family.sink_logits,
        beyond=(*family.beyond, *family.beside(keys)),
        sources=sources | {"scale": scale_key},
    )


def stretched_from(layers: Iterable[LayerSpec | None]) -> int | None:
    """The length before the stretch that a scaling names."""
    for layer in layers:
        spec = layer.rotary if layer else None
        if spec is not None and "scaling" in spec.settings:
            length = spec.settings["scaling"].settings.get("original_length")
            if length is not None:
                return length
    return None


def deepseek_scale(keys: Keys, head_dim: int) -> Sourced[float]:
    """DeepSeek's: YaRN's gain, squared, is in the scale, whatever is in cos and sin."""
    scale, key = by_head_dim(keys, head_dim)
    own = keys.inside("rope_parameters") or keys.inside("rope_scaling")
    if own is None or own.word("rope_type", "type").value in (None, "default"):
        return Sourced(scale, key)
    strength, name = own.maybe_number("mscale_all_dim")
    factor, _ = own.maybe_number("factor")
    if not strength or not factor:
        return Sourced(scale, key)
    return Sourced(scale * magnitude(factor, strength) ** 2, f"{key} * m({name})**2")


def query_scalar(keys: Keys, head_dim: int) -> Sourced[float]:
    """Gemma's: one by the root of a number of its own."""
    value, key = keys.whole("query_pre_attn_scalar")
    return Sourced(value**-0.5, f"{key}**-0.5")


def multiplier(keys: Keys, head_dim: int) -> Sourced[float]:
    """Granite's: the scale itself."""
    value, key = keys.maybe_number("attention_multiplier")
    return Sourced(1.0 if value is None else value, key)


def one(keys: Keys, head_dim: int) -> Sourced[float]:
    """Products as they are: their code norms queries and keys."""
    return Sourced(1.0, f"always in {keys.owner}")


def listed_turns(keys: Keys, kinds: tuple[str, ...]) -> tuple[bool, ...]:
    """Those of no_rope_layers, or all but every n-th."""
    return turning_layers(keys, len(kinds)).value


def turning_layers(keys: Keys, count: int) -> Sourced[tuple[bool, ...]]:
    """no_rope_layers, in which 1 means that the layer turns; else every n-th does not."""
    n, n_key = keys.whole("no_rope_layer_interval")
    turns, key = keys.list("no_rope_layers")
    if not turns:
        return Sourced(tuple((i + 1) % n != 0 for i in range(count)), n_key)
    if len(turns) != count or any(x not in (0, 1) for x in turns):
        raise keys.wrong(key, turns, f"a list of {count} zeros and ones")
    return Sourced(tuple(map(bool, turns)), key)


def only_sliding_turns(keys: Keys, kinds: tuple[str, ...]) -> tuple[bool, ...]:
    """Layers that slide turn, and those that see everything do not."""
    if SLIDING not in kinds:
        return (True,) * len(kinds)
    return tuple(kind == SLIDING for kind in kinds)
