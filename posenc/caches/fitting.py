"""The cache that the masks of a layer allow."""

from collections.abc import Sequence

from posenc.caches.cache import Cache, Policy
from posenc.caches.rolling import RollingCache
from posenc.equation import mask_rules
from posenc.lowering import Part, lower
from posenc.mask_rules import Chunk, Sink, Window
from posenc.positions import Positions


def fitting_cache(
    encoding: Sequence[Part], policy: Policy = "rotated", length: int | None = None
) -> Cache:
    """A cache that holds what later tokens of a layer can see, and no more."""
    one = Positions.build(1, causal=True, extent=length)
    rules = mask_rules(lower(encoding, one).terms)
    widths = [rule.width for rule in rules if isinstance(rule, Window)]
    chunks = [rule.width for rule in rules if isinstance(rule, Chunk)]
    sinks = [rule.count for rule in rules if isinstance(rule, Sink)]
    if not widths and not chunks:
        return Cache(policy, length)
    window, chunk = min(widths, default=None), min(chunks, default=None)
    return RollingCache(window, max(sinks, default=0), policy, length, chunk)
