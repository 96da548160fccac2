"""Rotary settings, in every spelling that configurations have had."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from posenc.errors import ConfigError, shown
from posenc.models.keys import Keys, Sourced, check_same
from posenc.models.read.scaling_range import check_range
from posenc.models.spec import EncodingSpec, ScalingSpec

SHARES = ("partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_emb_fraction")
_TYPE = ("rope_type", "type")


@dataclass(frozen=True)
class Rope:
    """The keys that speak of the rotation of one kind of layer.

    `own` are those of rope_parameters or rope_scaling, `top` the whole configuration, in which
    older files have some of them. bases are names of the base in `top`.
    """

    own: Keys
    top: Keys
    bases: tuple[str, ...] = ("rope_theta", "rotary_emb_base")

    def number(self, name: str, *elsewhere: str) -> Sourced[float | None]:
        """A number of the inner object, or of the configuration under other names."""
        value = self.own.maybe_number(name)
        return value if value.value is not None else self.top.maybe_number(*elsewhere or (name,))

    def base(self) -> Sourced[float]:
        value, key = self.own.maybe_number("rope_theta", least=1.0)
        outer, outer_key = self.top.maybe_number(*self.bases, least=1.0)
        self._check_agreement(Sourced(value, key), Sourced(outer, outer_key), self.bases[0])
        if value is None:
            value, key = outer, outer_key
        if value is None:
            raise ConfigError(
                f"{self.top.where()} has no {self.bases[0]}, and nothing is known of what "
                f"{self.top.owner} takes instead: add it to the configuration"
            )
        return Sourced(value, key)

    def _check_agreement(self, inner: Sourced[Any], outer: Sourced[Any], name: str) -> None:
        """Raise ConfigError where a file says two things of all kinds of layers alike."""
        alike = self.own.path.count(".") == self.top.path.count(".") + 1
        if alike and inner.value is not None and self.top.given(name):
            check_same(inner, outer)

    def factor(self) -> Sourced[float]:
        value, key = self.own.maybe_number("factor")
        if value is None:
            raise ConfigError(
                f"{self.own.where()} asks for {self.kind().value!r} without a factor: add it"
            )
        return Sourced(value, key)

    def original(self) -> Sourced[int]:
        """The length before the stretch; where nothing else is said, the model's own."""
        own, top = (keys.maybe_whole(_ORIGINAL) for keys in (self.own, self.top))
        # transformers 4 takes the inner one for YaRN, transformers 5 the outer.
        self._check_agreement(own, top, _ORIGINAL)
        value, key = top if own.value is None else own
        longest = "max_position_embeddings", "seq_length"
        return self.top.whole(*longest) if value is None else Sourced(value, key)

    def kind(self) -> Sourced[str]:
        value, key = self.own.word(*_TYPE)
        twin, _ = self.own.word("type")
        if twin is not None and SCALINGS.get(twin) is not SCALINGS.get(value or "default"):
            raise self.own.wrong(f"{self.own.path}type", twin, f"{value!r}, as {key} says,")
        return Sourced(value or "default", key)


def rope(
    keys: Keys,
    layer: str,
    bases: tuple[str, ...],
    scaled: bool = True,
    silent: Mapping[str, Any] | None = None,
) -> Rope | None:
    """What is said of this kind of layer, or None where it is said not to turn.

    `scaled` says whether an older file's rope_scaling, which names no kind, is meant for it too,
    and `silent` what holds where nothing is said.
    """
    nothing = Keys({}, silent, owner=keys.owner)
    inner = keys.inside("rope_parameters")
    if inner is not None and any(isinstance(x, Mapping) for x in inner.values.values()):
        if layer in inner.values and inner.values[layer] is None:
            return None
        return Rope(inner.inside(layer) or nothing, keys, bases)
    older = keys.inside("rope_scaling")
    return Rope(inner or (older if scaled else None) or nothing, keys, bases)


Settings = tuple[str, dict[str, Sourced[Any]]]
Scalings = Mapping[str, Callable[[Rope], Settings] | None]


def scaling(at: Rope, own: Scalings) -> tuple[ScalingSpec | None, dict[str, str]]:
    """The scaling that is asked for, and the keys that its settings came from."""
    kind, key = at.kind()
    known = {**SCALINGS, **own}
    if kind not in known:
        raise ConfigError(
            f"{key} is {shown(kind)}, and no such scaling is known: known are {', '.join(known)}"
        )
    read = known[kind]
    if read is None:
        return None, {"scaling": key}
    name, settings = read(at)
    sources = {f"scaling.{setting}": x.key for setting, x in settings.items()}
    given = {setting: x.value for setting, x in settings.items() if x.value is not None}
    return ScalingSpec(name, given), {"scaling": key, **sources}


def _linear(at: Rope) -> Settings:
    return "Linear", {"factor": at.factor()}


def _dynamic(at: Rope) -> Settings:
    # No code of it asks for another length, where a file gives one.
    length = at.top.whole("max_position_embeddings", "seq_length")
    return "DynamicNTK", {"factor": at.factor(), "original_length": length}


def _yarn(at: Rope) -> Settings:
    own = at.own
    settings: dict[str, Sourced[Any]] = {
        "factor": at.factor(),
        "original_length": at.original(),
        "beta_fast": own.maybe_number("beta_fast"),
        "beta_slow": own.maybe_number("beta_slow"),
        "attention_factor": own.maybe_number("attention_factor"),
    }
    if own.any("truncate").value is not None:
        settings["truncate"] = own.flag("truncate")
    gains = {name: own.maybe_number(name) for name in ("mscale", "mscale_all_dim")}
    # transformers and DeepSeek read the two together or not at all; 0 is not.
    if all(x.value for x in gains.values()) and settings["attention_factor"].value is None:
        settings |= gains
    return "YaRN", settings


def _llama3(at: Rope) -> Settings:
    numbers = {name: at.own.maybe_number(name) for name in ("low_freq_factor", "high_freq_factor")}
    for name, (value, _) in numbers.items():
        if value is None:
            raise ConfigError(f"{at.own.where()} asks for 'llama3' without {name}: add it")
    return "Llama3", {"factor": at.factor(), **numbers, "original_length": at.original()}


def _long_rope(at: Rope) -> Settings:
    lists = {x: at.own.numbers(f"{x}_factor") for x in ("short", "long")}
    for name, (value, _) in lists.items():
        if value is None:
            raise ConfigError(f"{at.own.where()} asks for 'longrope' without {name}_factor: add it")
    original = at.original()
    factor: Sourced[float | None] = at.own.maybe_number("factor")
    reach = at.top.maybe_whole("max_position_embeddings")
    if reach.value is not None and (at.top.given(_ORIGINAL) or factor.value is None):
        # As in transformers: Phi-3 names the trained length beside rope_scaling, and no factor.
        factor = Sourced(reach.value / original.value, f"{reach.key} / {original.key}")
    if factor.value is None:
        raise ConfigError(f"{at.own.where()} asks for 'longrope' without a factor: add it")
    return "LongRoPE", {
        **lists,
        "original_length": original,
        "factor": factor,
        "attention_factor": at.own.maybe_number("attention_factor"),
    }


def fixed_alpha(at: Rope) -> Settings:
    """Hunyuan's "dynamic", which stretches the base once by a number of its own."""
    alpha, key = at.own.maybe_number("alpha")
    if not alpha:
        return _dynamic(at)
    # They stand in the file, and the code asks for none of them.
    at.own.any("factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim")
    return "NTK", {"factor": Sourced(alpha, key)}


def two_gains(at: Rope) -> Settings:
    """Phi-3.5-MoE's "longrope", whose file has the gain below the trained length and beyond it."""
    name, settings = _long_rope(at)
    short, key = at.own.maybe_number("short_mscale")
    long, _ = at.own.maybe_number("long_mscale")
    if short is not None and short != long:
        raise at.own.wrong(key, short, f"the same as long_mscale = {long}")
    return name, settings | {"attention_factor": Sourced(short, key)}


def _proportional(at: Rope) -> Settings:
    share = at.number("partial_rotary_factor")
    return "Proportional", {"fraction": Sourced(share.value or 1.0, share.key)}


_ORIGINAL = "original_max_position_embeddings"

SCALINGS: Scalings = {
    "default": None,
    # Qwen2-VL's files of 2024: the sections say the rest.
    "mrope": None,
    "linear": _linear,
    "dynamic": _dynamic,
    "ntk": lambda at: ("NTK", {"factor": at.factor()}),
    "yarn": _yarn,
    "deepseek_yarn": _yarn,
    "llama3": _llama3,
    "longrope": _long_rope,
    # Phi-3's name of it before the paper was out.
    "su": _long_rope,
    "proportional": _proportional,
}


@dataclass(frozen=True)
class Sections:
    """Pairs dealt out to time, height and width: how many where the file is silent, and how.

    A file of "space" counts those of height, width and time, in that order. Where a file and
    silent both count none, all pairs turn by one coordinate.
    """

    silent: tuple[int, ...]
    interleaved: bool | Literal["space"] = False


def rotary(
    at: Rope,
    head_dim: int,
    layout: str,
    latent: tuple[int, int] | None = None,
    sections: Sections | None = None,
    scalings: Scalings | None = None,
) -> tuple[EncodingSpec, dict[str, str]]:
    """The rotation, and the keys that its settings came from.

    sections make it one of time, height and width, scalings are types that this model's code
    takes otherwise. latent are the dimensions of a head that rest and those that turn (MLA).
    """
    base = at.base()
    spec, sources = scaling(at, scalings or {})
    settings: dict[str, Any] = {"dim": head_dim, "base": base.value}
    sources["base"] = base.key
    if latent:
        settings |= {"rotary_dim": latent[1], "start": latent[0]}
        sources["rotary_dim"] = at.top.any("qk_rope_head_dim").key
    elif spec is None or spec.name != "Proportional":
        turned, key = _turned(at, head_dim)
        sources["rotary_dim"] = key
        if turned != head_dim:
            settings["rotary_dim"] = turned
    if spec is not None:
        check_range(spec, sources, base.value, settings.get("rotary_dim", head_dim))
        settings["scaling"] = spec
    if sections is not None:
        named = "xdrope_section" if at.own.given("xdrope_section") else "mrope_section"
        pairs, key = at.own.whole_numbers(named)
        # Some files say so too; the code does not ask.
        at.own.flag("mrope_interleaved")
        counts = pairs or sections.silent
        if sections.interleaved == "space":
            counts = (*counts[-1:], *counts[:-1])
        if counts:
            settings |= {"sections": counts, "interleaved": sections.interleaved}
            if layout != "half":
                settings["layout"] = layout
            return EncodingSpec("mrope", settings), sources | {"sections": key}
    return EncodingSpec("rotary", settings | {"layout": layout}), sources


def _turned(at: Rope, head_dim: int) -> tuple[int, str]:
    """How many dimensions of a head turn."""
    count, key = at.top.maybe_whole("rotary_dim")
    if count is not None:
        if count % 2 or count > head_dim:
            raise at.top.wrong(key, count, f"an even number of at most {head_dim} dimensions")
        return count, key
    share, key = at.own.maybe_number("partial_rotary_factor")
    if share is None:
        share, key = at.top.maybe_number(*SHARES)
    if share is None:
        if head_dim % 2:
            raise ConfigError(
                f"{at.top.where()} has heads of {head_dim} dimensions, which cannot turn in pairs: "
                "an even number is needed, or a partial_rotary_factor"
            )
        return head_dim, key
    if not 0 < share <= 1:
        raise at.top.wrong(key, share, "a share above 0 and at most 1")
    # Rounded down, as every library does.
    turned = int(head_dim * share)
    if turned < 2 or turned % 2:
        raise at.top.wrong(key, share, f"an even number of the {head_dim} dimensions of a head")
    return turned, key
