"""Checks of decoding: through every kind of cache it gives what the full forward gives."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from posenc.analysis.probe_context import context_for
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
from posenc.lowering import lower
from posenc.model import Transformer
from posenc.positions import Positions
from posenc.terms import Rotate, Sink
from posenc.testing.fixtures import (
    attends,
    copy_of,
    model_for,
    qkv,
    require,
    require_close,
    scattered,
    tokens_for,
    when,
)

LENGTH, WINDOW, SINKS, PADDING = 14, 4, 2, 3


def check_decoding(encoding: Encoding) -> None:
    """Decoding through a cache, in chunks and one by one, equals the full forward."""
    model = model_for(encoding)

    def decode(policy: Policy) -> None:
        for mask in (None, ragged()):
            require_same(model, lambda: Cache(policy, LENGTH), (4, 1, 1, 1, 7), mask)

    under_each_policy(decode)


def check_taken_back(encoding: Encoding) -> None:
    """Tokens that a cache takes back, and rows of the batch that it drops, leave no trace."""
    model, rows, kept = model_for(encoding), torch.tensor([1, 0]), 6
    tokens, mask = tokens_for(LENGTH), ragged()
    with torch.no_grad():
        expected = model(tokens[rows], whole(mask[rows]))[:, kept:]

    def decode(kind: type[Cache], policy: Policy) -> None:
        caches = [kind(policy=policy, length=LENGTH) for _ in model.blocks]
        first = Positions.build(attention_mask=mask[:, :kept], causal=True)
        with torch.no_grad():
            model(tokens[:, :kept], first, caches)
            model(tokens[:, :3], caches=caches)
            for cache in caches:
                cache.truncate(kept)
                cache.reorder(rows)
            later = tokens[rows][:, kept:].split([1, LENGTH - kept - 1], dim=1)
            got = torch.cat([model(token, caches=caches) for token in later], dim=1)
        require_close(got, expected, 1e-9, f"{caches[0]!r}")

    under_each_policy(lambda policy: decode(Cache, policy))
    under_each_policy(lambda policy: decode(StaticCache, policy), adds=payload_adds(encoding))


def check_rolling_cache(encoding: Encoding) -> None:
    """A cache of constant size equals the full forward under its window and sinks, or refuses."""
    sinks = max([SINKS, *own_sinks(encoding)])
    model = model_for(encoding, masks=[SlidingWindow(WINDOW), Sinks(sinks)], depth=1)
    recent = range(LENGTH - WINDOW + 1, LENGTH)

    def decode(policy: Policy) -> None:
        for mask, starts, chunks in (
            (None, (0,), (1, 6, 1, 1, 1, 4)),
            (ragged(), (0, PADDING), (5, 1, 1, 1, 6)),
        ):
            caches = require_same(
                model, lambda: RollingCache(WINDOW, sinks, policy, LENGTH), chunks, mask
            )
            # Where padding differs, the columns of both rows' sinks are kept.
            held = {*recent, *(at + start for start in starts for at in range(sinks))}
            require(len(caches[0]) == len(held), f"{caches[0]!r}, which needs {len(held)}")

    under_each_policy(decode, adds=payload_adds(encoding))


def check_static_cache(encoding: Encoding) -> None:
    """A cache of fixed shapes, written in place, equals the full forward, or refuses."""
    model, slots = model_for(encoding, depth=1), LENGTH + 2

    def decode(policy: Policy) -> None:
        for mask in (None, ragged()):
            caches = require_same(model, lambda: StaticCache(slots, policy), (5, 1, 1, 7), mask)
            require(len(caches[0]) == LENGTH, f"{caches[0]!r}, and was given {LENGTH}")

    def decode_last(policy: Policy) -> None:
        tokens, cache = tokens_for(LENGTH), StaticCache(slots, policy)
        with torch.no_grad():
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
    """Turned keys move as if they had been turned where they come to be, or that is refused."""
    made, (k, _, _) = copy_of(encoding), qkv(encoding)
    steps = torch.arange(k.shape[2])
    old, new = (
        Positions.build(
            ids=at if made.axes == 1 else scattered(made.axes) + at[:, None], causal=True
        )
        for at in (steps, 2 + 7 * steps)
    )
    terms = lower(made, old).terms
    turns = [term for term in terms if isinstance(term, Rotate) and term.k_log_scale is None]
    if len(turns) == len(terms) == 1:
        moved = rerotate(rotate(k, k, made, positions=old)[1], old, new, made)
        require_close(moved, rotate(k, k, made, positions=new)[1], 1e-9, "turned again")
        return
    try:
        rerotate(k, old, new, made)
    except UnsupportedError:
        return
    require(False, f"keys were turned again, by an encoding that lowers to {terms}")


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
    """Decode with keys kept turned and with raw ones, which serve whatever a cache can serve.

    A refusal must say what else to do: keep raw keys or, where payloads do not add up, another
    kind of cache.
    """
    for policy in POLICIES:
        try:
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
    return encoding.payload_adds or type(encoding).payload is Encoding.payload


def own_sinks(encoding: Encoding) -> list[int]:
    """How many first tokens its own masks keep visible."""
    if not attends(encoding):
        return []
    lowered = lower(encoding, Positions.build(1, causal=True), context=context_for(encoding, 1))
    return [rule.count for rule in mask_rules(lowered.terms) if isinstance(rule, Sink)]
