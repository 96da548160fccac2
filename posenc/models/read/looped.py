"""Models that run some of their layers several times over."""

from collections.abc import Mapping
from dataclasses import replace

from posenc.models.keys import LAYERS, Keys, Sourced
from posenc.models.read.decoder import Decoder, layer_count, read_decoder, with_base
from posenc.models.read.kinds import FULL, SLIDING, Kinds, every, listed
from posenc.models.spec import PartSpec

_MOST_LOOPS = 1000
_FEED = "mlp"


def _dory_kinds(keys: Keys, count: int) -> Kinds:
    """Published files list the feed-forward behind each attention as a layer of its own."""
    kinds, key = listed(every(FULL, SLIDING, "pattern"))(keys, count)
    known = FULL, SLIDING, _FEED
    if not set(kinds) <= {*known}:
        raise keys.wrong(key, kinds, f"each of {', '.join(known)}")
    if _FEED in kinds and [kind == _FEED for kind in kinds] != [i % 2 == 1 for i in range(count)]:
        raise keys.wrong(key, kinds, f"{_FEED!r} behind each other kind, or nowhere,")
    return Sourced(kinds, key)


DORY = Decoder(
    with_base(
        10_000.0,
        head_dim=256,
        sliding_window=1024,
        pattern=4,
        n_input_layers=8,
        n_output_layers=8,
        n_recurrent_loops=2,
    ),
    kinds=_dory_kinds,
    silent_ropes={
        FULL: {"rope_type": "default", "rope_theta": 10_000_000.0},
        SLIDING: {"rope_type": "default", "rope_theta": 10_000.0},
    },
    beyond=("each dimension of a query is scaled after it has turned",),
)


def read_dory(keys: Keys) -> Mapping[str, PartSpec]:
    """Dory's: the layers between the first and the last ones run as often as the file says."""
    part = read_decoder(keys, DORY)
    listed_layers, _ = layer_count(keys)
    layers = tuple(layer for layer in part.layers if layer is not None)
    # Where the feed-forward layers are listed, they are counted as well.
    each = listed_layers // len(layers)
    first = keys.whole("n_input_layers", least=0, most=LAYERS).value // each
    last, last_key = keys.whole("n_output_layers", least=0, most=LAYERS)
    last //= each
    middle, key = keys.maybe_whole("n_recurrent_layers", least=0, most=LAYERS)
    loops, loops_key = keys.whole("n_recurrent_loops", most=_MOST_LOOPS)
    between = len(layers) - first - last
    if between < 0:
        raise keys.wrong(last_key, last, f"at most {len(layers) - first} layers")
    if middle is not None and middle // each != between:
        raise keys.wrong(key, middle, f"what is left of {len(layers)} layers, {between * each},")
    if loops == 1:
        return {"text": replace(part, layers=layers)}
    again = tuple(
        replace(
            layer,
            beyond=(*layer.beyond, f"it runs {loops} times over"),
            sources={**layer.sources, "beyond": loops_key},
        )
        if first <= i < first + between
        else layer
        for i, layer in enumerate(layers)
    )
    return {"text": replace(part, layers=again)}
