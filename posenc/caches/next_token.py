"""One token more in a cache of either kind: memory for it, and how it is counted.

A step of decoding turns and copies straight into that memory, and reads what is there by views.
"""

from torch import Tensor

from posenc.caches.cache import Cache
from posenc.caches.growing_buffer import with_room
from posenc.caches.static import StaticCache
from posenc.positions import Positions


def slots_of_next(cache: Cache, number: int) -> tuple[Tensor, Tensor]:
    """Where the key and the value of the token with this number, the next, are written."""
    if isinstance(cache, StaticCache):
        cache.make_writable()
    assert cache.k is not None
    assert cache.v is not None
    if isinstance(cache, StaticCache):
        # They are hidden until they are counted.
        return cache.k.narrow(2, number, 1), cache.v.narrow(2, number, 1)
    k = with_room(cache.k, 1, cache.buffers[0], cache.length)
    v = with_room(cache.v, 1, cache.buffers[1], cache.length)
    cache.buffers = k, v
    return k.room(1), v.room(1)


def with_next(cache: Cache, count: int) -> tuple[Tensor, Tensor]:
    """Keys and values of so many tokens, the last of which was written to its slots."""
    if isinstance(cache, StaticCache):
        assert cache.k is not None
        assert cache.v is not None
        return cache.k.narrow(2, 0, count), cache.v.narrow(2, 0, count)
    k, v = cache.buffers
    assert k is not None
    assert v is not None
    return k.hold(count), v.hold(count)


def count_next(cache: Cache, k: Tensor, v: Tensor, placed: Positions | None) -> None:
    """Let the cache hold keys and values as `with_next` gave them.

    placed  where they are; None: as `cache.ahead` tells
    """
    if isinstance(cache, StaticCache):
        # All slots are placed already.
        cache.count_on(1)
        return
    cache.k, cache.v = k, v
    if placed is not None:
        cache.placed = placed
    elif cache.ahead is not None:
        cache.counted = cache.ahead, k.shape[2]
