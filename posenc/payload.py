"""What a context tells of every key: given, or made of the layer's input and what a cache keeps."""

from dataclasses import replace

from torch import Tensor

from posenc.caches.cache import Cache
from posenc.encoding import Context, Encoding
from posenc.errors import ShapeError
from posenc.joint_payload import joined
from posenc.lowering import Lowerable, Lowered, flatten
from posenc.padding import of_real
from posenc.positions import Positions


def with_payload(
    encoding: Lowerable,
    context: Context,
    batch: int,
    new: int,
    cache: Cache | None,
    positions: Positions | Tensor | None = None,
) -> Context:
    """The context with the payload of every key: as given, or made of x and what the cache keeps.

    positions tell which tokens of x are padding. A batch of another size would broadcast, and
    widen the output.
    """
    payload = context.payload
    for name, given in (("x", context.x), ("payload", payload)):
        if given is not None and given.shape[0] not in (1, batch):
            raise ShapeError(
                f"Context({name}=...) has shape {tuple(given.shape)}, but q has a batch of "
                f"{batch}: give one row for each of q's"
            )
    if payload is None and context.x is not None:
        payload = _payload(encoding, of_real(context.x, positions))
        _check_told(payload, new)
        payload = payload if cache is None else cache.payload_with(payload)
    _check_told(payload, new if cache is None else cache.keys(new))
    return replace(context, payload=payload)


def _check_told(payload: Tensor | None, keys: int) -> None:
    if payload is not None and payload.shape[-1] != keys:
        raise ShapeError(
            f"the context tells of {payload.shape[-1]} tokens, but there are {keys} keys: give "
            "Context(x=...) of every key or, while decoding, of the new tokens with the cache that "
            "all tokens before them went through, by their encoding and not by lowered terms"
        )


def _payload(encoding: Lowerable, x: Tensor) -> Tensor | None:
    if isinstance(encoding, Lowered):
        return None
    made = [part.payload(x) for part in flatten(encoding) if isinstance(part, Encoding)]
    return joined([payload for payload in made if payload is not None])
