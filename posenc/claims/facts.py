"""What an encoding says of itself for a length, found out from its class, not from measurements."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from posenc.analysis.probe_context import context_of_one_token, embeds
from posenc.encoding import Encoding
from posenc.errors import PosencError
from posenc.lab.encodings import made
from posenc.lowering import embeds_only, lower
from posenc.model import Transformer
from posenc.positions import Positions, Tokens
from posenc.testing.decoding import decodes

VOCABULARY, TOKENS, DEPTH = 19, 9, 2


@dataclass(frozen=True)
class Facts:
    """Of one encoding, or of several together.

    refuses           why it does not read the target, made for the train length; empty: it does
    cache             with which cache it decodes: "rotated" or "raw"; None: with none, or nobody
                      asked, for to try takes seconds for all of them
    causal_only       whether it is for causal attention only
    length_dependent  whether it turns by angles that depend on how long the input is
    """

    refuses: str
    cache: str | None
    causal_only: bool
    length_dependent: bool


def facts(text: str, train: int, target: int, *, dim: int, heads: int, cache: bool) -> Facts | None:
    """Of encodings as a comparison names them; None where a model of these sizes has none such."""
    try:
        own = _made(text, train, dim, heads)
        small = _made(text, TOKENS, dim, heads)
    except PosencError:
        return None
    depends = any(one.tags.length_dependent for one in own)
    return Facts(
        refuses=_refusal(own, target),
        cache=_cache(small, dim, heads, TOKENS if depends else None) if cache else None,
        causal_only=any(one.tags.causal_only for one in own),
        length_dependent=depends,
    )


def _cache(encodings: list[Encoding], dim: int, heads: int, length: int | None) -> str | None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Transformer(
            VOCABULARY, dim, DEPTH, heads, encodings, max_length=TOKENS, causal=True
        )
        tokens = torch.randint(VOCABULARY, (1, TOKENS))
    return decodes(model.double().eval(), tokens, length)


def _made(text: str, length: int, dim: int, heads: int) -> list[Encoding]:
    sizes = {"max_length": length, "train_length": length, "causal": True}
    return made(text, model_dim=dim, heads=heads, **sizes)


@torch.no_grad()
def _refusal(encodings: Sequence[Encoding], target: int) -> str:
    """What it raises for the last token of an input of the target length, however long that is."""
    for one in encodings:
        try:
            if embeds(one):
                one.embed(torch.zeros(1, 1, one.model_dim or 1), _last(target, "cpu"))
            if not embeds_only(one):
                # Where a table of all distances takes no memory.
                light, at = copy.deepcopy(one).to("meta"), _last(target, "meta")
                lower(light, at, context=context_of_one_token(light, at.k_len))
        except PosencError as error:
            return str(error)
    return ""


def _last(target: int, device: str) -> Positions:
    """Of the last token, which sees itself and the first one."""
    ends = torch.tensor(sorted({0, target - 1}), device=device)
    keys = Tokens(ends, order=ends)
    return Positions(keys.last(1), keys, causal=True, extent=target, unit_step=True)
