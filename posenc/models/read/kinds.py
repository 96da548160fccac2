"""Which kind each layer of a model is: by list, by rhythm, or all alike."""

from collections.abc import Callable

from posenc.models.keys import Keys, Sourced

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
# Layers that hold a state in place of keys, and so know order without any of this.
STATES = frozenset({"linear_attention", "mamba", "conv", "recurrent", "hybrid_mamba"})

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
        # Older keys say the same once more.
        said = otherwise(keys, count)
        if kinds is None:
            return said
        # Granite's files and Jamba's say "attention" beside "mamba".
        kinds = [FULL if kind == "attention" else kind for kind in kinds]
        if len(kinds) != count or not all(isinstance(kind, str) for kind in kinds):
            raise keys.wrong(key, kinds, f"a list of {count} names, one for each layer,")
        return Sourced(tuple(kinds), key)

    return rule
