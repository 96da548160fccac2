"""One run of a transformers model, which hands over what each layer attends with.

Letters: b texts, h query heads, g key heads, t tokens, d head dimension.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posenc.encoding import Encoding
from posenc.errors import UnknownNameError
from posenc.lowering import Lowered
from posenc.models.attach import attach, detach, watch
from posenc.models.attach.entry import entry
from posenc.models.attach.sight import Plan
from posenc.models.spec import LayerSpec


@dataclass(frozen=True, eq=False)
class LayerCall:
    """What one layer attended with, before rotation, and what came out of it.

    q (b, h, t, d), k (b, g, t, d), v (b, g, t, dv), out (b, h, t, dv). `lowered` holds the terms of
    its scores: those of `encodings`, and of its mask. q . k is multiplied by `scale`, None for
    d**-0.5; not always by the spec's, for some code multiplies q by that before (OPT).
    """

    layer: int
    spec: LayerSpec
    encodings: tuple[Encoding, ...]
    q: Tensor
    k: Tensor
    v: Tensor
    lowered: Lowered
    out: Tensor
    scale: float | None


def collect(
    model: Any,
    ids: Tensor,
    visit: Callable[[LayerCall], None],
    layers: Collection[int] | None = None,
) -> None:
    """Run token ids (b, t) through a model, and call `visit` in each of these layers, or in all.

    Only one layer's tensors are held at a time. Afterwards the model has no posenc.
    Raises UnsupportedError where posenc cannot enter the model, and UnknownNameError for a layer
    that has no attention.
    """
    _, body = entry(model)
    numbers = [x for x, layer in enumerate(body.spec.layers) if layer is not None]
    if layers is not None and (beyond := sorted(set(layers) - set(numbers))):
        raise UnknownNameError("layer with attention", str(beyond[0]), map(str, numbers))
    specs = dict(zip(numbers, body.layers, strict=True))
    modules = dict(zip(numbers, body.attentions, strict=True))

    def look(layer: int, *seen: Any) -> None:
        if layers is None or layer in layers:
            plan = modules[layer].posenc_plan
            assert isinstance(plan, Plan)
            visit(LayerCall(layer, specs[layer], plan.parts, *seen))

    attach(model, raw_keys=True)
    try:
        # Without its head, which would make logits of all texts.
        with watch(model, look), torch.no_grad():
            model.base_model(ids, use_cache=False)
    finally:
        detach(model)
