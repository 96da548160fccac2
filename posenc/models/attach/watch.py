"""Look at what every layer of an attached model attends with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from posenc.errors import UnsupportedError
from posenc.lowering import Lowered

# layer, q (b, h, tq, d), k and v (b, g, tk, d), the terms of their scores, out (b, h, tq, d), and
# the scale of q . k, None for d**-0.5
Watcher = Callable[[int, Tensor, Tensor, Tensor, Lowered, Tensor, float | None], None]


@contextmanager
def watch(model: Any, watcher: Watcher) -> Iterator[None]:
    """Call `watcher(layer, q, k, v, lowered, out, scale)` in each layer while the block runs.

    q and k are as `attend` got them: turned already, unless the model was attached with
    raw_keys=True, and scaled already where the model's code does that (OPT), which then gives a
    scale of 1. Raises UnsupportedError for a model without posenc.

    Example:

        posenc.attach(model, raw_keys=True)
        with watch(model, lambda layer, q, k, *_: norms.append(k.norm(dim=-1))):
            model(ids)
    """
    layers = [module for module in model.modules() if hasattr(module, "posenc_plan")]
    if not layers:
        raise UnsupportedError(f"watch: {type(model).__name__} has no posenc: attach(model) first")
    for module in layers:
        module.posenc_watch = watcher
    try:
        yield
    finally:
        for module in layers:
            del module.posenc_watch
