"""Losses of a causal model on long inputs, in memory that grows with a chunk and not with a square.

Letters: t tokens, n scored tokens, v words of the vocabulary.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.models.cache_names import given_cache

# Long enough for fast products, short enough that chunk * v logits are a small part of the model.
CHUNK = 512


class Scored(NamedTuple):
    """What a model says of tokens that it is to predict.

    loss is -ln p in nats, rank how many words it holds more likely: greedy decoding takes 0.
    """

    loss: Float[Tensor, "n"]
    rank: Int[Tensor, "n"]


def score(model: Any, ids: Int[Tensor, "t"], first: int = 1, chunk: int = CHUNK) -> Scored:
    """The losses and ranks of ids[first:], each predicted from all tokens before it.

    Tokens go through in chunks with a cache, and logits are made of scored tokens only, of no more
    than a chunk at a time. first is 1 or more: nothing stands before token 0.
    """
    parts = [
        _of(logits, ids[at + 1 : at + 1 + len(logits)])
        for at, logits in _logits(model, ids, first, chunk)
    ]
    return Scored(torch.cat([x.loss for x in parts]), torch.cat([x.rank for x in parts]))


def _logits(
    model: Any, ids: Int[Tensor, "t"], first: int, chunk: int
) -> Iterator[tuple[int, Float[Tensor, "n v"]]]:
    """Pieces of the logits that predict ids[first:], each with where it starts."""
    from transformers import DynamicCache

    # The last token predicts nothing that is known.
    read = ids[:-1]
    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        for begin in range(0, len(read), chunk):
            end = min(begin + chunk, len(read))
            start = max(begin, first - 1)
            out = model(
                input_ids=read[None, begin:end].to(model.device),
                **given_cache(model, cache),
                use_cache=True,
                # At least one, for zero means all.
                logits_to_keep=max(end - start, 1),
            )
            if end > start:
                yield start, out.logits[0]


def _of(logits: Float[Tensor, "n v"], ids: Int[Tensor, "n"]) -> Scored:
    logits, ids = logits.float(), ids.to(logits.device)[:, None]
    own = logits.gather(-1, ids)
    loss = logits.logsumexp(-1, keepdim=True) - own
    # Not "above its own": of a model that broke down to what is no number, nothing ranks first.
    return Scored(loss[:, 0].cpu(), (~(logits <= own)).sum(-1).cpu())
