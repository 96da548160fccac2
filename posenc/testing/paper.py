"""The first oracle of every encoding: its own `reference_*`, the paper's formula in float64."""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.analysis.probe_context import embeds
from posenc.attention import attend
from posenc.attention_parts import scores
from posenc.encoding import Context, Encoding, Pairs, Visible
from posenc.positions import Positions
from posenc.testing.agreement import Case, Peer
from posenc.testing.fixtures import Trial, attends, causalities, repeated, scattered, shifted


def pairs_for(q: Tensor, positions: Positions, context: Context | None = None) -> Pairs:
    """What references read of these positions, for a batch as large as that of q."""

    def rows(values: Tensor) -> Tensor:
        return values.expand(len(q), *values.shape[min(values.ndim - 1, 1) :])

    q_at, k_at = (rows(side.position).double() for side in (positions.queries, positions.keys))
    q_order, k_order = map(rows, positions.orders())
    return Pairs(q_at, k_at, q.shape[-1] ** -0.5, context, q_order, k_order)


def visible_by_the_paper(encoding: Encoding, positions: Positions, pairs: Pairs) -> Visible:
    """Who sees whom where nothing is padded or packed: `reference_visible`, and causality."""
    q_order, k_order = pairs.orders()
    visible = encoding.reference_visible(pairs)
    return visible & (k_order <= q_order) if positions.causal else visible


def embedded_by_the_paper(encoding: Encoding, x: Tensor, positions: Positions) -> Tensor:
    """`reference_embed` of the encoding's parameters as they are."""
    return encoding.reference_embed(x, positions.queries.position.double().expand(len(x), -1))


def scores_by_the_paper(
    encoding: Encoding, q: Tensor, k: Tensor, positions: Positions, context: Context | None = None
) -> Tensor:
    """`reference_scores`, hidden where `reference_visible` and causality say so."""
    pairs = pairs_for(q, positions, context)
    s = encoding.reference_scores(q, repeated(k, q.shape[1]), pairs)
    return s.masked_fill(~visible_by_the_paper(encoding, positions, pairs), -torch.inf)


def output_by_the_paper(
    encoding: Encoding,
    q: Tensor,
    s: Tensor,
    v: Tensor,
    positions: Positions,
    context: Context | None = None,
) -> Tensor:
    """`reference_output` of the weights that these scores give."""
    pairs = pairs_for(q, positions, context)
    p = encoding.reference_weights(s)
    return encoding.reference_output(p, repeated(v, q.shape[1]), pairs)


def results_by_the_paper(trial: Trial, positions: Positions) -> dict[str, Tensor]:
    """What `Trial.results` should be, of the same numbers in float64."""
    exact = trial.to(torch.float64)
    encoding, results = exact.encoding, {}
    if embeds(encoding):
        results["embed"] = embedded_by_the_paper(encoding, exact.x, positions)
    if attends(encoding):
        where = {"positions": positions, "context": exact.context}
        s = scores_by_the_paper(encoding, exact.q, exact.k, **where)
        results["scores"] = s
        results["output"] = output_by_the_paper(encoding, exact.q, s, exact.v, **where)
    return results


def paper_of(kind: type[Encoding]) -> Peer:
    """The formula of the paper, on every example of an encoding."""

    def cases() -> Iterator[Case]:
        for trial in map(Trial.of, kind.examples()):
            if embeds(trial.encoding):
                yield _embedded(trial)
            for causal in causalities(trial.encoding) if attends(trial.encoding) else ():
                yield from _attended(trial, shifted(5, causal=causal))
                if trial.encoding.axes > 1:
                    ids = scattered(trial.encoding.axes)
                    yield from _attended(trial, Positions.build(ids=ids, causal=causal))

    return Peer(kind.name, "paper", kind.paper, cases)


def _twins(trial: Trial) -> tuple[Encoding, Encoding, list[tuple[Tensor, Tensor]]]:
    """The encoding, a copy to be read by the paper, and the parameters of both."""
    ours, theirs = trial.encoding, copy.deepcopy(trial.encoding)
    return ours, theirs, list(zip(ours.parameters(), theirs.parameters(), strict=True))


def _embedded(trial: Trial) -> Case:
    ours, theirs, weights = _twins(trial)
    positions = Positions.build(trial.x.shape[1])
    return Case(
        f"{ours!r}.embed",
        lambda x: ours.embed(x, positions),
        lambda x: embedded_by_the_paper(theirs, x, positions),
        (trial.x,),
        weights,
    )


def _attended(trial: Trial, positions: Positions) -> Iterator[Case]:
    ours, theirs, weights = _twins(trial)
    where = {"positions": positions, "context": trial.context}
    shape = tuple(positions.keys.position.shape)
    name = f"{ours!r}, causal={positions.causal}, positions of shape {shape}"

    def paper(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        s = scores_by_the_paper(theirs, q, k, **where)
        return output_by_the_paper(theirs, q, s, v, **where)

    yield Case(
        f"scores of {name}",
        lambda q, k: scores(q, k, ours, **where),
        lambda q, k: scores_by_the_paper(theirs, q, k, **where),
        (trial.q, trial.k),
        weights,
    )
    yield Case(
        f"output of {name}",
        lambda q, k, v: attend(q, k, v, ours, **where),
        paper,
        trial.qkv,
        weights,
    )
