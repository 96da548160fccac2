"""Positions that no training has seen."""

from collections.abc import Iterator

from posenc.models.angles import turns
from posenc.models.doctor.finding import Case, Finding, Words


def beyond_training(case: Case) -> Iterator[Finding]:
    """Slow pairs that did not complete a turn in training meet angles that are new to them."""
    trained = case.spec.main.trained_length
    layers = [x for x in case.spec.layers if x is not None and x.rotary and x.window is None]
    if trained is None or case.target <= trained or not layers or not layers[0].rotary:
        return
    counted = turns(layers[0].rotary, trained)
    # Each pair is there once for each of its two dimensions.
    new = sum(x < 1 for x in counted) // 2
    if new:
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
                "trained": trained,
                "new": new,
                "of": len(counted) // 2,
            },
            link="https://arxiv.org/abs/2309.00071",
        )
