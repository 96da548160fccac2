"""Layers of one model that turn differently."""

from collections.abc import Iterator
from dataclasses import replace

from posenc.models.angles import compare
from posenc.models.doctor.finding import Case, Finding, Words


def differs_by_layer(case: Case) -> Iterator[Finding]:
    """What it costs where an engine takes the settings of one kind of layer for all."""
    layers = [x for x in case.spec.layers if x is not None and x.rotary]
    whole = next((x for x in layers if x.window is None and x.chunk is None), None)
    if whole is None or whole.rotary is None or all(x.rotary == whole.rotary for x in layers):
        return
    alike = tuple(
        replace(x, encodings=whole.encodings) if x is not None and x.rotary else x
        for x in case.spec.layers
    )
    name, part = next(iter(case.spec.parts.items()))
    other = replace(case.spec, parts={name: replace(part, layers=alike)})
    effect = compare(case.spec, other, case.target)
    if effect is not None:
        yield Finding(
            "differs-by-layer",
            "note",
            Words(
                "Layers of different kinds turn differently. An engine that takes the settings "
                "of those that see everything for all of them is wrong.",
                "不同类型的层旋转方式不同。若引擎把全局层的设置用于所有层，就会出错。",
            ),
            keys=("layer_types",),
            effect=effect,
            link="https://github.com/vllm-project/vllm/pull/29111",
        )
