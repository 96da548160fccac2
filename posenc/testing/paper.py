"""The first oracle of every encoding: its own `reference_*`, the paper's formula in float64."""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.analysis.probe_context import context_for, embeds, sizes_for
from posenc.attention import attend
from posenc.attention_parts import scores
from posenc.encoding import Encoding
from posenc.equation import weights_of
from posenc.positions import Positions
from posenc.testing.agreement import Case, Peer
from posenc.testing.fixtures import (
    LENGTH,
    attends,
    causalities,
    copy_of,
    pairs_for,
    qkv,
    repeated,
    scattered,
    shifted,
)
from posenc.testing.masks import visible_by_the_paper


def paper_of(kind: type[Encoding]) -> Peer:
    """The formula of the paper, on every example of an encoding."""

    def cases() -> Iterator[Case]:
        for example in kind.examples():
            made = copy_of(example)
            if embeds(made):
                yield _embedded(made)
            if attends(made):
                for causal in causalities(made):
                    yield from _attended(made, shifted(5, causal=causal))
                    if made.axes > 1:
                        at = Positions.build(ids=scattered(made.axes), causal=causal)
                        yield from _attended(made, at)

    return Peer(kind.name, "paper", kind.paper, cases)


def _embedded(made: Encoding) -> Case:
    at = Positions.build(LENGTH)
    generator = torch.Generator().manual_seed(17)
    shape = (2, LENGTH, sizes_for(made).model_dim)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    rows = at.queries.position.double().expand(2, -1)
    other = copy.deepcopy(made)
    return Case(
        f"{made!r}.embed",
        lambda x: made.embed(x, at),
        lambda x: other.reference_embed(x, rows),
        (x,),
        list(zip(made.parameters(), other.parameters(), strict=True)),
    )


def _attended(made: Encoding, at: Positions) -> Iterator[Case]:
    context, other = context_for(made), copy.deepcopy(made)
    q, k, v = qkv(made)
    pairs = pairs_for(q, at, context)
    visible = visible_by_the_paper(other, at, pairs)
    weights = list(zip(made.parameters(), other.parameters(), strict=True))

    def by_the_paper(q: Tensor, k: Tensor) -> Tensor:
        found = other.reference_scores(q, repeated(k, q.shape[1]), pairs)
        return found.masked_fill(~visible, -torch.inf)

    def output_by_the_paper(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        p = weights_of(by_the_paper(q, k))
        return other.reference_output(p, repeated(v, q.shape[1]), pairs)

    name = f"{made!r}, causal={at.causal}, positions of shape {tuple(at.keys.position.shape)}"
    yield Case(
        f"scores of {name}",
        lambda q, k: scores(q, k, made, positions=at, context=context),
        by_the_paper,
        (q, k),
        weights,
    )
    yield Case(
        f"output of {name}",
        lambda q, k, v: attend(q, k, v, made, positions=at, context=context),
        output_by_the_paper,
        (q, k, v),
        weights,
    )
