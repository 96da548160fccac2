"""Which kind each layer of a model is: by list, by rhythm, or all alike."""

from collections.abc import Callable
from contextlib import suppress

from posenc.errors import ConfigError
from posenc.models.keys import Keys, Sourced

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
# Layers that hold a state in place of keys, and so know order without any of this; in some lists
# the feed-forward layers are counted too.
STATES = frozenset({"linear_attention", "mamba", "conv", "recurrent", "mlp", "moe"})
# Names of layers that see everything. Granite's files and Jamba's say "attention" beside "mamba";
# in Zamba's a "hybrid" has both; an "indexed" one picks among all keys.
_EVERYTHING = frozenset({"attention", "hybrid", "indexed_attention", "deepseek_sparse_attention"})

Kinds = Sourced[tuple[str, ...]]
Rule = Callable[[Keys, int], Kinds]


def alike(kind: str) -> Rule:
    """All layers are of one kind."""
    return lambda keys, count: Sourced((kind,) * count, f"always in {keys.owner}")


def by_window(keys: Keys, count: int) -> Kinds:
    """All layers slide where there is a window, and none does where there is none."""
    width = keys.maybe_whole("sliding_window")
    return Sourced((SLIDING if width.value else FULL,) * count, width.key)


def every(nth: str, others: str, *names: str, first: bool = False) -> Rule:
    """One layer in n is of another kind: the last of each n, or the first of it."""

    def rule(keys: Keys, count: int) -> Kinds:
        n, key = keys.whole(*names)
        rest = 0 if first else n - 1
        return Sourced(tuple(nth if i % n == rest else others for i in range(count)), key)

    return rule


def ends_full(rule: Rule) -> Rule:
    """Gemma 4's: whatever the rule says, the last layer sees everything."""

    def ending(keys: Keys, count: int) -> Kinds:
        kinds = rule(keys, count)
        return Sourced((*kinds.value[:-1], FULL), kinds.key)

    return ending


def upper_layers(keys: Keys, count: int) -> Kinds:
    """Qwen2's: with use_sliding_window, layers from max_window_layers on slide."""
    used, key = keys.flag("use_sliding_window")
    width = keys.maybe_whole("sliding_window", least=0)
    lowest = keys.maybe_whole("max_window_layers", least=0)
    if not used or not width.value:
        return Sourced((FULL,) * count, key)
    start = lowest.value or 0
    kinds = tuple(SLIDING if i >= start else FULL for i in range(count))
    return Sourced(kinds, lowest.key)


def listed(otherwise: Rule, *names: str) -> Rule:
    """What `layer_types` says, one by one; an older file is read by the other rule."""

    def rule(keys: Keys, count: int) -> Kinds:
        kinds, key = keys.list(*(names or ("layer_types",)))
        if kinds is None:
            return otherwise(keys, count)
        # Older keys say the same once more, some of them null, and the list decides.
        with suppress(ConfigError):
            otherwise(keys, count)
        if len(kinds) != count or not all(isinstance(kind, str) for kind in kinds):
            raise keys.wrong(key, kinds, f"a list of {count} names, one for each layer,")
        return Sourced(tuple(FULL if kind in _EVERYTHING else kind for kind in kinds), key)

    return rule


def numbered(others: str, *names: str, first: int = 0) -> Rule:
    """Layers whose numbers are listed see everything, and all do where no list is given."""

    def rule(keys: Keys, count: int) -> Kinds:
        listed, key = keys.whole_numbers(*names)
        if listed is None:
            return Sourced((FULL,) * count, key)
        if any(not first <= number < count + first for number in listed):
            raise keys.wrong(key, listed, f"a list of numbers of {count} layers")
        chosen = set(listed)
        return Sourced(tuple(FULL if i + first in chosen else others for i in range(count)), key)

    return rule


def sees_ahead(keys: Keys) -> bool:
    """Whether the file says is_causal: false, and transformers' masks hide nothing ahead."""
    return keys.given("is_causal") and not keys.flag("is_causal").value


def if_it_slides(keys: Keys, kinds: tuple[str, ...]) -> tuple[bool, ...]:
    """A layer that sees everything never turns, also where none slides."""
    return tuple(kind == SLIDING for kind in kinds)
