"""Checks of decoding: through every kind of cache it gives what the full forward gives."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import torch
from torch import Tensor

from posenc.attention_parts import rotate
from posenc.caches.cache import POLICIES, Cache, Policy
from posenc.caches.rerotation import rerotate
from posenc.caches.rolling import RollingCache
from posenc.caches.static import StaticCache
from posenc.encoding import Encoding
from posenc.encodings.sinks import Sinks
from posenc.encodings.sliding_window import SlidingWindow
from posenc.equation import mask_rules
from posenc.errors import CacheError, UnsupportedError
from posenc.joint_payload import keeps
from posenc.lowering import lower
from posenc.mask_rules import Sink
from posenc.model import Transformer
from posenc.positions import Positions
from posenc.terms import Rotate
from posenc.testing.fixtures import (
    attends,
    copy_of,
    model_for,
    qkv,
    require,
    require_close,
    scattered,
    terms_of,
    tokens_for,
    when,
)

LENGTH, WINDOW, SINKS, PADDING = 14, 4, 2, 3


def check_decoding(encoding: Encoding) -> None:
    """Decoding through a cache, in chunks and one by one, equals the full forward."""
    model, tags = model_for(encoding), encoding.tags
    # Without a length a cache counts on; it needs one where terms depend on how far tokens come.
    lengths = (LENGTH,) if tags.length_dependent or tags.needs_extent else (LENGTH, None)

    def decode(policy: Policy) -> None:
        for mask, length in product((None, ragged()), lengths):
            require_same(model, partial(Cache, policy, length), (4, 1, 1, 1, 7), mask)

    under_each_policy(decode)


def check_taken_back(encoding: Encoding) -> None:
    """Tokens that a cache takes back, and rows of the batch that it drops, leave no trace."""
    model, rows, kept = model_for(encoding), torch.tensor([1, 0]), 6
    tokens, mask = tokens_for(LENGTH), ragged()
    first = Positions.build(attention_mask=mask[:, :kept], causal=True)
    expected = model(tokens[rows], whole(mask[rows]))[:, kept:]

    def decode(kind: type[Cache], policy: Policy) -> None:
        caches = [kind(policy=policy, length=LENGTH) for _ in model.blocks]
        model(tokens[:, :kept], first, caches)
        model(tokens[:, :3], caches=caches)
        for cache in caches:
            cache.truncate(kept)
            cache.reorder(rows)
        later = tokens[rows][:, kept:].split([1, LENGTH - kept - 1], dim=1)
        actual = torch.cat([model(chunk, caches=caches) for chunk in later], dim=1)
        require_close(actual, expected, 1e-9, f"{caches[0]!r}")

    under_each_policy(lambda policy: decode(Cache, policy))
    under_each_policy(lambda policy: decode(StaticCache, policy), adds=payload_adds(encoding))


def check_rolling_cache(encoding: Encoding) -> None:
    """A cache of constant size equals the full forward under its window and sinks, or refuses."""
    rules = mask_rules(terms_of(encoding) if attends(encoding) else ())
    sinks = max([SINKS, *(rule.count for rule in rules if isinstance(rule, Sink))])
    model = model_for(encoding, masks=[SlidingWindow(WINDOW), Sinks(sinks)], depth=1)
    recent = range(LENGTH - WINDOW + 1, LENGTH)

    def decode(policy: Policy) -> None:
        for mask, starts, chunks in (
            (None, (0,), (1, 6, 1, 1, 1, 4)),
            (ragged(), (0, PADDING), (5, 1, 1, 1, 6)),
        ):
            make = partial(RollingCache, WINDOW, sinks, policy, LENGTH)
            caches = require_same(model, make, chunks, mask)
            # Where padding differs, the columns of both rows' sinks are kept.
            held = {*recent, *(start + i for start in starts for i in range(sinks))}
            require(len(caches[0]) == len(held), f"{caches[0]!r}, which needs {len(held)}")

    under_each_policy(decode, adds=payload_adds(encoding))


def check_static_cache(encoding: Encoding) -> None:
    """A cache of fixed shapes, written in place, equals the full forward, or refuses."""
    model, slots = model_for(encoding, depth=1), LENGTH + 2

    def decode(policy: Policy) -> None:
        for mask in (None, ragged()):
            caches = require_same(model, partial(StaticCache, slots, policy), (5, 1, 1, 7), mask)
            require(len(caches[0]) == LENGTH, f"{caches[0]!r}, and was given {LENGTH}")

    def decode_last(policy: Policy) -> None:
        tokens, cache = tokens_for(LENGTH), StaticCache(slots, policy)
        both(tokens[:, :-1], caches=[cache])
        last = both(tokens[:, -1:], caches=[cache])
        expected = both(tokens, whole(None, slots, causal=False))[:, -1:]
        require_close(last, expected, 1e-9, f"{cache!r}, not causal")

    under_each_policy(decode, adds=payload_adds(encoding))
    if not encoding.tags.causal_only:
        # Then no order hides the slots that are not yet written.
        both = model_for(encoding, causal=False, depth=1)
        under_each_policy(decode_last, adds=payload_adds(encoding))


@when(lambda encoding: attends(encoding) and not encoding.tags.needs_context)
def check_rerotate(encoding: Encoding) -> None:
    """Rotated keys move as if rotated where they come to be, or that is refused."""
    moved, (k, _, _) = copy_of(encoding), qkv(encoding)
    steps = torch.arange(k.shape[2])
    axes = scattered(moved.axes) if moved.axes > 1 else None
    old, new = (
        Positions.build(ids=ids if axes is None else axes + ids[:, None], causal=True)
        for ids in (steps, 2 + 7 * steps)
    )
    terms = lower(moved, old).terms
    rotations = [term for term in terms if isinstance(term, Rotate) and term.k_log_scale is None]
    if len(rotations) == len(terms) == 1:
        there = rerotate(rotate(k, k, moved, positions=old)[1], old, new, moved)
        require_close(there, rotate(k, k, moved, positions=new)[1], 1e-9, "rotated again")
        return
    try:
        rerotate(k, old, new, moved)
    except UnsupportedError:
        return
    require(False, f"keys were rotated again, by an encoding that lowers to {terms}")


def ragged() -> Tensor:
    """An attention mask whose first row begins with padding."""
    mask = torch.ones(2, LENGTH, dtype=torch.bool)
    mask[0, :PADDING] = False
    return mask


def whole(mask: Tensor | None, length: int = LENGTH, causal: bool = True) -> Positions:
    """Positions of the full forward, with the extent that caches of this length are fixed to."""
    mask = torch.ones_like(ragged()) if mask is None else mask
    return Positions.build(attention_mask=mask, causal=causal, extent=length)


@torch.no_grad()
def require_same(
    model: Transformer,
    make: Callable[[], Cache],
    chunks: Sequence[int],
    mask: Tensor | None = None,
) -> list[Cache]:
    """Decode chunk by chunk, of which the first alone is told of padding; the caches used.

    Raises CheckError where a token's output is not that of the full forward.
    """
    caches, tokens, steps = [make() for _ in model.blocks], tokens_for(LENGTH), []
    for chunk in tokens.split(list(chunks), dim=1):
        positions = None
        if mask is not None and not steps:
            positions = Positions.build(attention_mask=mask[:, : chunk.shape[1]], causal=True)
        steps.append(model(chunk, positions, caches))
    real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
    expected = model(tokens, whole(mask, caches[0].length or LENGTH))[real]
    what = f"{caches[0]!r}, {'plain' if mask is None else 'padded'}, in chunks of {chunks}"
    require_close(torch.cat(steps, dim=1)[real], expected, 1e-9, what)
    return caches


def under_each_policy(decode: Callable[[Policy], None], adds: bool = True) -> None:
    """Decode with keys kept rotated and with raw ones, which serve whatever a cache can serve.

    A refusal must say what else to do: keep raw keys or, where payloads do not add up, another
    kind of cache.
    """
    for policy in POLICIES:
        try:
            with torch.no_grad():
                decode(policy)
        except CacheError as error:
            refused = str(error)
        else:
            require(adds, f"policy {policy!r}: payloads that do not add up were accepted")
            continue
        instead = 'policy="raw"' if adds else "decode with Cache"
        require(instead in refused, f"policy {policy!r} is refused without {instead}: {refused}")
        require(policy == "rotated" or not adds, f"no policy is legal: {refused}")


def payload_adds(encoding: Encoding) -> bool:
    """Whether tokens may be left out of its payload: it keeps none, or one that adds up."""
    return encoding.payload_adds or not keeps(encoding)
