"""Angles that no training has seen."""

import math
from collections.abc import Iterator
from dataclasses import replace

from posenc.models.angles import frequencies, turned_distance
from posenc.models.doctor.finding import Case, Finding, Words
from posenc.models.spec import EncodingSpec

# Of an angle: what is stretched back to the last position of training need not equal it exactly.
_ROUNDING = 1e-9


def beyond_training(case: Case) -> Iterator[Finding]:
    """Pairs that meet new angles, because they did not complete a turn before.

    Let f(L) be a pair's frequency in inputs of L tokens under the file's scaling. Training has
    seen angles up to the larger of f(stated) * stated and plain f * original, where original is
    the length before positions were stretched, and the stated one where none is named. A pair is
    new if that is less than a turn, and f(target) * target is more.

    So a stretch that ends where the model was trained, or within what the file states, is not
    accused, whichever of the two lengths a file states. Dynamic NTK and LongRoPE change f with L:
    between two such lengths an angle is never larger than at one of their ends, for the one
    falls before it grows, and the other changes once, at the original length. Linear
    scaling names no original length; the stated one is given the benefit of the doubt.
    """
    part = case.spec.main
    stated = part.trained_length
    rotary = next(
        (
            x.rotary
            for x in part.layers
            if x is not None and x.rotary and x.window is None and x.chunk is None
        ),
        None,
    )
    if stated is None or case.target <= stated or rotary is None:
        return
    reached = _angles(rotary, case.target)
    before = zip(
        _angles(rotary, stated),
        _angles(_plain(rotary), part.original_length or stated),
        strict=True,
    )
    seen = [max(angles) for angles in before]
    new = [x < 2 * math.pi and y > x * (1 + _ROUNDING) for x, y in zip(seen, reached, strict=True)]
    if any(new):
        yield Finding(
            "beyond-training",
            "error",
            Words(
                "{target} tokens are beyond the {trained} that the file states: {new} of {of} "
                "pairs meet angles that they never had.",
                "{target} 个词元超出文件声明的 {trained} 个：{of} 对中有 {new} 对会遇到从未见过的角度。",
            ),
            keys=("max_position_embeddings",),
            numbers={
                "target": case.target,
                "trained": stated,
                # Each pair is there once for each of its two dimensions.
                "new": sum(new) // 2,
                "of": sum(y > 0 for y in reached) // 2,
            },
            link="https://arxiv.org/abs/2309.00071",
        )


def _angles(rotary: EncodingSpec, length: int) -> list[float]:
    """What each dimension turns by from the first token of an input to its end."""
    return [wave * turned_distance(rotary, length) for wave in frequencies(rotary, length)]


def _plain(rotary: EncodingSpec) -> EncodingSpec:
    settings = {name: x for name, x in rotary.settings.items() if name != "scaling"}
    return replace(rotary, settings=settings)
