"""What passes through the layers of a transformers model, whoever computes its attention.

Letters: b batch, h heads, g key heads, t tokens, d head dimension, c model dimension.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
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
    """One forward pass: what each layer was given (b, t, c), how it attended, and the result.

    Layers go by their names, in the order in which they compute. encoded (b, t, c) is what an
    encoder hands to its decoder; ids (axes, b, t) are where the model put the tokens of images.
    """

    inputs: dict[str, Tensor] = field(default_factory=dict)
    attended: dict[str, Attended] = field(default_factory=dict)
    encoded: Tensor | None = None
    ids: Tensor | None = None
    result: Tensor | None = None


def spy(model: Any, **inputs: Any) -> Seen:
    """Run a model once and keep what passes through its layers.

    Attention is seen where it goes by transformers' AttentionInterface, which "eager" does too.
    Raises UnsupportedError for a model whose layers are not found.
    """
    seen = Seen()
    layers = layers_of(model)
    with ExitStack() as stack:
        for name, layer in layers.items():
            hook = layer.register_forward_pre_hook(partial(_given, name, seen), with_kwargs=True)
            stack.callback(hook.remove)
        for rotary in (x for name, x in model.named_modules() if name.endswith("rotary_emb")):
            hook = rotary.register_forward_pre_hook(partial(_placed, seen), with_kwargs=True)
            stack.callback(hook.remove)
        if encodes(model):
            hook = model.get_encoder().register_forward_hook(partial(_encoded, seen))
            stack.callback(hook.remove)
        if getattr(model, "_supports_attention_backend", False):
            stack.enter_context(_spied(model, layers, seen))
        out = model(**inputs)
    seen.result = (out["logits"] if "logits" in out else out[0]).detach()
    return seen


def encodes(model: Any) -> bool:
    """Whether it reads a text and writes another one."""
    return bool(model.config.is_encoder_decoder) and hasattr(model, "get_encoder")


def layers_of(model: Any) -> dict[str, nn.Module]:
    """The layers that write or read text, by their names. Raises UnsupportedError for none.

    Those of an encoder are called "encoder layer 0" and so on, before those of its decoder.
    """
    if encodes(model):
        stacks = {"encoder ": model.get_encoder(), "decoder ": model.get_decoder()}
        return {
            f"{name}layer {number}": layer
            for name, stack in stacks.items()
            for number, layer in enumerate(_list_of(stack))
        }
    count = model.config.get_text_config().num_hidden_layers
    part = _part_of_text(model)
    stacks = [x for x in part.modules() if isinstance(x, nn.ModuleList) and len(x) == count]
    if not stacks:
        raise UnsupportedError(
            f"{type(model).__name__} has no list of {count} layers, as many as its config tells"
        )
    return {f"layer {number}": layer for number, layer in enumerate(stacks[0])}


def _list_of(stack: nn.Module) -> nn.ModuleList:
    found = next((x for x in stack.modules() if isinstance(x, nn.ModuleList)), None)
    if found is None:
        raise UnsupportedError(f"{type(stack).__name__} has no list of layers")
    return found


def _part_of_text(model: Any) -> nn.Module:
    """Without a tower that sees, which may have as many layers, and numbers its attention too."""
    kind = type(model.config.get_text_config())
    parts = (x for x in model.modules() if type(getattr(x, "config", None)) is kind)
    return next(parts, model)


def _given(
    name: str, seen: Seen, module: nn.Module, args: tuple[Any, ...], told: dict[str, Any]
) -> None:
    seen.inputs[name] = (args[0] if args else told["hidden_states"]).detach()


def _placed(seen: Seen, module: nn.Module, args: tuple[Any, ...], told: dict[str, Any]) -> None:
    ids = args[1] if len(args) > 1 else told.get("position_ids")
    # Of fewer axes the inputs tell.
    if isinstance(ids, Tensor) and ids.ndim == 3:
        seen.ids = ids[-3:]


def _encoded(seen: Seen, module: nn.Module, args: tuple[Any, ...], out: Any) -> None:
    seen.encoded = out[0].detach()


@contextmanager
def _spied(model: Any, layers: dict[str, nn.Module], seen: Seen) -> Iterator[None]:
    """The attention functions and masks of each part of the model, with a look at what passes."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as MASKS

    own = implementations(model.config)
    of_layer = {id(x): name for name, layer in layers.items() for x in layer.modules()}
    for name in set(own.values()):
        # Each has a name of its own, for masks are looked up by it too.
        AttentionInterface.register(_PREFIX + name, partial(_attend, name, of_layer, seen))
        if name in MASKS:
            AttentionMaskInterface.register(_PREFIX + name, MASKS[name])
    model.set_attn_implementation({part: _PREFIX + name for part, name in own.items()})
    try:
        yield
    finally:
        model.set_attn_implementation(own)


def _attend(
    own: str,
    of_layer: Mapping[int, str],
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
    layer = of_layer.get(id(module))
    if layer is not None and layer not in seen.attended:
        q, k, v, returned = (x.detach() for x in (q, k, v, out.transpose(1, 2)))
        causal = bool(getattr(module, "is_causal", False))
        seen.attended[layer] = Attended(q, k, v, returned, told.get("scaling"), causal)
    return out, weights


def _eager_of(module: nn.Module) -> Callable[..., Any]:
    """The attention function that stands beside this class, which no registry has."""
    return vars(sys.modules[type(module).__module__]).get("eager_attention_forward", _none)


def _none(*args: Any, **told: Any) -> Any:
    raise UnsupportedError("its code has no attention function of its own")
