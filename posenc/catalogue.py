"""Encodings by name."""

import importlib
import re
from typing import Any

from posenc.encoding import Encoding
from posenc.encodings import members
from posenc.errors import SettingError, UnknownNameError, given, one_of, whole

# What the literature calls them besides. A name stands for one encoding with its own settings:
# deberta_v2 and nezha are settings of others, "absolute" and "relative" are kinds of which there
# are many.
ALIASES: dict[str, tuple[str, ...]] = {
    "axial": ("axial_rope", "rope_2d", "2d_rope"),
    "coordinates": ("lap_pe", "laplacian", "random_walk", "rwpe", "rwse"),
    "deberta": ("disentangled",),
    "dual_chunk": ("chunk_llama", "dca", "dual_chunk_attention"),
    "forget_gate": ("fox", "forgetting_transformer"),
    "grape": ("grape_m",),
    "grid_learned": ("factorized", "learned_2d"),
    "grid_sinusoidal": ("sincos_2d", "sinusoidal_2d"),
    "learned": ("learnable", "trained"),
    "learned_rotary": ("learned_rope",),
    "mixed_rotary": ("rope_mixed",),
    "none": ("no_position",),
    "ordinal": ("integer", "integers"),
    "path": ("path_attention",),
    "pope": ("polar",),
    "relative_projection": ("inkling",),
    "rotary": ("rope", "roformer"),
    "shaw": ("rpr",),
    "sinks": ("attention_sinks", "streaming_llm"),
    "sinusoidal": ("sin", "sincos", "sine", "sinusoid"),
    "temperature": ("log_n",),
    "tree_path": ("shiv_quirk", "tree"),
    "transformer_xl": ("txl",),
    "window": ("local", "swa"),
}


def find(name: str) -> type[Encoding]:
    """The encoding class of a name or alias in the catalogue, a class, or "package.module:Class".

    Capitals, hyphens, underscores and spaces make no difference: Self-Extend is self_extend.
    Raises UnknownNameError with the nearest names, SettingError for what cannot be imported.
    """
    if ":" in name:
        return _imported(name)
    known = members()
    aliases = {alias: known[own] for own, others in ALIASES.items() for alias in others}
    classes = {kind.__name__: kind for kind in known.values()}
    by_letters = {_letters(each): kind for each, kind in (aliases | classes | known).items()}
    if _letters(name) not in by_letters:
        raise UnknownNameError("encoding", name, known, aliases)
    return by_letters[_letters(name)]


def canonical(name: str) -> str:
    """The catalogue's own name of what `find` finds; "package.module:Class" as it is."""
    return name if ":" in name else find(name).name


def _letters(name: str) -> str:
    return re.sub(r"[-_\s]", "", name.lower())


def make(
    name: str,
    *,
    model_dim: int,
    heads: int,
    head_dim: int | None = None,
    max_length: int = 2048,
    train_length: int | None = None,
    causal: bool = True,
    **settings: Any,
) -> Encoding:
    """An encoding with settings that suit a model of these sizes; `settings` replace some of them.

    max_length is the longest input to accept, train_length (default: the same) the longest one in
    training, to which what is learned per distance is fitted.

    Raises UnknownNameError for a name or a setting that there is not, and SettingError for sizes
    and settings that do not fit.

    Example: `make("t5", model_dim=512, heads=8, buckets=64)`.
    """
    member = find(name)
    optional = given(head_dim=head_dim, train_length=train_length)
    whole("make", model_dim=model_dim, heads=heads, max_length=max_length, **optional)
    one_of("make", (False, True), causal=causal)
    if head_dim is None:
        if model_dim % heads:
            raise SettingError(
                f"make({name!r}, model_dim={model_dim}, heads={heads}): model_dim is not a "
                "multiple of heads; give head_dim"
            )
        head_dim = model_dim // heads
    suitable = member.for_model(
        model_dim=model_dim,
        heads=heads,
        head_dim=head_dim,
        max_length=max_length,
        train_length=max_length if train_length is None else train_length,
        causal=causal,
    )
    unknown = set(settings) - set(suitable.settings())
    if unknown:
        raise UnknownNameError(f"setting of {member.__name__}", min(unknown), suitable.settings())
    return member(**(suitable.settings() | settings)) if settings else suitable


def _imported(path: str) -> type[Encoding]:
    module, _, name = path.partition(":")
    try:
        member = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingError(
            f"encoding {path!r} cannot be imported ({error}): "
            "give package.module:Class, from where Python finds the package"
        ) from error
    if not (isinstance(member, type) and issubclass(member, Encoding)):
        raise SettingError(f"{path} is {member!r}: a class derived from posenc.Encoding is needed")
    return member
