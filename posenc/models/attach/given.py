"""position_ids and caches of a forward pass, for the layers that need to know of them."""

from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from posenc.errors import CacheError, UnsupportedError
from posenc.models.attach.registration import NAME
from posenc.models.attach.sight import Given, Passes
from posenc.models.cache_names import cache_of
from posenc.positions.from_batch import runs


class ReadGiven:
    """A forward pre-hook of the model's body, which keeps what its layers are not told."""

    def __init__(self, passes: Passes, module: nn.Module) -> None:
        self.passes = passes
        self.names = tuple(signature(module.forward).parameters)

    def __call__(self, module: nn.Module, args: tuple[Any, ...], told: dict[str, Any]) -> None:
        told = dict(zip(self.names, args, strict=False)) | told
        ids, cache = told.get("position_ids"), cache_of(told)
        given, mask = Given(), told.get("attention_mask")
        # Where the mask is the user's own, nobody else says where in a cache its queries stand.
        if cache is not None and isinstance(mask, Tensor) and mask.ndim == 4:
            # A copy, for a static cache counts on in place.
            given.before = cache.get_seq_length() + 0
        # A decoder that reads an encoder keeps keys of both.
        own = getattr(cache, "self_attention_cache", cache)
        if hasattr(own, "of_layer"):
            if own is cache and getattr(module.config, "is_encoder_decoder", False):
                raise CacheError(
                    f"{type(module).__name__} with a {type(cache).__name__}: its code would write "
                    "keys of the encoder into it too; give transformers.EncoderDecoderCache("
                    f"{type(cache).__name__}(model), transformers.DynamicCache())"
                )
            given.cache = own
        # Of images in text; where there are four axes, the first is that of the text alone.
        given.ids = ids[-3:].movedim(0, -1) if ids is not None and ids.ndim == 3 else ids
        # transformers reads documents off them too, but not where the model makes itself a cache,
        # as it does unless it is told use_cache=False, and in some models (gpt-oss, OPT) never.
        if ids is not None and ids.ndim == 2 and cache is None and mask is None:
            given.documents = runs(ids)
        self.passes.begin(given)


def check_chosen(module: nn.Module, args: tuple[Any, ...]) -> None:
    """A forward pre-hook that refuses a model whose attention is posenc's no more."""
    chosen = getattr(getattr(module, "config", None), "_attn_implementation", NAME)
    # What looks on goes by a longer name.
    if not str(chosen).endswith(NAME):
        raise UnsupportedError(
            f"{type(module).__name__} has posenc, and its config says {chosen!r} for attention: "
            "set_attn_implementation was called, or another model that shares the config was "
            "detached; call posenc.attach again, and give each model a config of its own"
        )


class Unrepeated:
    """A forward pre-hook that refuses checkpointing by which each layer goes back to learned waves.

    Layers share cos and sin. A re-entrant layer is computed again within its own backward pass,
    which goes on to what they were made of, and torch frees that behind the first layer.
    """

    def __init__(self, turned: tuple[nn.Module, ...]) -> None:
        self.turned = turned

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        learned = [x for x in self.turned if any(p.requires_grad for p in x.parameters())]
        if learned and torch.is_grad_enabled() and any(map(_is_reentrant, module.modules())):
            raise UnsupportedError(
                f"{type(module).__name__} learns {learned}, whose cos and sin all of its layers "
                "share, and its re-entrant gradient checkpointing goes back to them once for each "
                "layer: call gradient_checkpointing_enable({'use_reentrant': False}), or attach "
                "with raw_keys=True"
            )


def _is_reentrant(layer: nn.Module) -> bool:
    checkpoint = getattr(layer, "_gradient_checkpointing_func", None)
    asked = getattr(layer, "gradient_checkpointing", False) and layer.training
    return asked and getattr(checkpoint, "keywords", {}).get("use_reentrant", False)


class Unreplaced:
    """A forward pre-hook that refuses what others put in the place of learned encodings.

    Attention goes on reading what `attach` was given, so that the other would learn nothing.
    """

    def __init__(self, holder: nn.ModuleList, learned: tuple[nn.Module, ...]) -> None:
        self.holder, self.learned = holder, learned

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        for number, (now, own) in enumerate(zip(self.holder, self.learned, strict=True)):
            if now is not own:
                raise UnsupportedError(
                    f"posenc.{number} is {type(now).__name__} in place of {type(own).__name__}, "
                    "which attention reads: leave it out of modules_to_save, let its parameters "
                    "learn by requires_grad_(), and keep model.posenc.state_dict() beside"
                )
