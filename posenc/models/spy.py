"""What passes through the layers of a transformers model, whoever computes its attention.

Letters: b batch, h heads, g key heads, t tokens, d head dimension, c model dimension.
"""

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn

from posenc.errors import UnsupportedError
from posenc.models.attach.interface import implementations

_PREFIX = "posenc_spied_"


class Attended(NamedTuple):
    """One attention: q (b, h, t, d), k and v (b, g, t, d) as it got them, out (b, h, t, d)."""

    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    scale: float | None
    causal: bool


@dataclass(eq=False)
class Seen:
    """One forward pass: what each layer was given (b, t, c), how it attended, and the result."""

    inputs: dict[int, Tensor] = field(default_factory=dict)
    attended: dict[int, Attended] = field(default_factory=dict)
    result: Tensor | None = None


def spy(model: Any, **inputs: Any) -> Seen:
    """Run a model once and keep what passes through its layers.

    Attention is seen where it goes by transformers' AttentionInterface, which "eager" does too.
    Raises UnsupportedError for a model whose layers are not found.
    """
    seen = Seen()
    with ExitStack() as stack:
        for number, layer in enumerate(layers_of(model)):
            stack.enter_context(_given(layer, number, seen))
        if getattr(model, "_supports_attention_backend", False):
            stack.enter_context(_spied(model, seen))
        out = model(**inputs)
    seen.result = (out["logits"] if "logits" in out else out[0]).detach()
    return seen


def layers_of(model: Any) -> nn.ModuleList:
    """The layers of the stack that writes or reads text. Raises UnsupportedError for none."""
    count = model.config.get_text_config().num_hidden_layers
    part = _part_of_text(model)
    stacks = [x for x in part.modules() if isinstance(x, nn.ModuleList) and len(x) == count]
    if not stacks:
        raise UnsupportedError(
            f"{type(model).__name__} has no list of {count} layers, as many as its config tells"
        )
    return stacks[0]


def _part_of_text(model: Any) -> nn.Module:
    """Without a tower that sees, which may have as many layers, and numbers its attention too."""
    kind = type(model.config.get_text_config())
    parts = (x for x in model.modules() if type(getattr(x, "config", None)) is kind)
    return next(parts, model)


@contextmanager
def _given(layer: nn.Module, number: int, seen: Seen) -> Iterator[None]:
    def keep(module: nn.Module, args: tuple[Any, ...], told: dict[str, Any]) -> None:
        seen.inputs[number] = (args[0] if args else told["hidden_states"]).detach()

    handle = layer.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _spied(model: Any, seen: Seen) -> Iterator[None]:
    """The attention functions and masks of each part of the model, with a look at what passes."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as MASKS

    own = implementations(model.config)
    of_text = {id(x) for x in _part_of_text(model).modules()}
    for name in set(own.values()):
        # Each has a name of its own, for masks are looked up by it too.
        AttentionInterface.register(_PREFIX + name, partial(_attend, name, of_text, seen))
        if name in MASKS:
            AttentionMaskInterface.register(_PREFIX + name, MASKS[name])
    model.set_attn_implementation({part: _PREFIX + name for part, name in own.items()})
    try:
        yield
    finally:
        model.set_attn_implementation(own)


def _attend(
    own: str,
    of_text: Collection[int],
    seen: Seen,
    module: nn.Module,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *args: Any,
    **told: Any,
) -> Any:
    """As the function of this name, and kept where a layer of text attends for the first time."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS as FUNCTIONS

    function: Callable[..., Any] = FUNCTIONS.get_interface(own, _eager_of(module))
    out, weights = function(module, q, k, v, *args, **told)
    number = getattr(module, "layer_idx", None) if id(module) in of_text else None
    if isinstance(number, int) and number not in seen.attended:
        q, k, v, returned = (x.detach() for x in (q, k, v, out.transpose(1, 2)))
        causal = bool(getattr(module, "is_causal", False))
        seen.attended[number] = Attended(q, k, v, returned, told.get("scaling"), causal)
    return out, weights


def _eager_of(module: nn.Module) -> Callable[..., Any]:
    """The attention function that stands beside this class, which no registry has."""
    return vars(sys.modules[type(module).__module__]).get("eager_attention_forward", _none)


def _none(*args: Any, **told: Any) -> Any:
    raise UnsupportedError("its code has no attention function of its own")
