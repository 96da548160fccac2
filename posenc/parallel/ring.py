"""ring_attend: attention whose keys and values go from rank to rank.

Letters: b batch, h query heads, g key heads, n tokens of a rank, d head dimension.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from posenc.attention_parts import rotate
from posenc.backends.backend import check_shapes
from posenc.encoding import Context
from posenc.errors import UnsupportedError
from posenc.lowering import Lowerable, Lowered, lower
from posenc.normal_form.normalise import visibility_of
from posenc.parallel.agreement import check_agreed
from posenc.parallel.communication import Communicator
from posenc.parallel.payloads import carried
from posenc.parallel.ring_passes import Job, Ring
from posenc.parallel.sharded import Sharded, check_part, fitted
from posenc.parallel.term_tensors import key_paths, tensors_of
from posenc.positions import Positions
from posenc.positions.plans import Plan
from posenc.terms import CountTable, DenseBias, GatherTable, Householder, Rotate, Term
from posenc.torch_modes import arithmetic
from posenc.transform import carried_out

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

_REFUSED: dict[type[Term], str] = {
    Householder: "keys are multiplied by a product over tokens of other ranks",
    CountTable: "counts of a query go over its keys on all ranks",
    DenseBias: "it has numbers for pairs of this rank's tokens, and none for other ranks' keys",
}


def ring_attend(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b g n d"],
    v: Float[Tensor, "b g n d_v"],
    encoding: Lowerable = None,
    *,
    positions: Positions | Sharded,
    plan: str | Plan | None = None,
    group: "ProcessGroup | DeviceMesh | None" = None,
    context: Context | None = None,
    scale: float | None = None,
    backend: str = "auto",
) -> Float[Tensor, "b h n d_v"]:
    """Attention of this rank's queries to the keys of all ranks, exact, forward and backward.

    Keys and values go around the ring of ranks. At each step a rank attends to those it has, and
    joins what came out by its log of the sum of exp(score):

        out = merge(attend(q, k[r], v[r], return_lse=True) for every rank r)

    Steps in which nobody sees anybody are left out, and what is added by position is what it is in
    the whole: documents, windows, sinks, padding and lengths hold across ranks.

    q, k, v    of this rank's tokens, as `posenc.shard` cuts them by the same plan
    positions  of the whole sequence, alike on every rank, or `Sharded` of them, made once for all
               layers
    plan       "zigzag" shares causal work evenly; "striped", "contiguous" or a function; None:
               that of Sharded, else "zigzag"
    group      the ranks, or a DeviceMesh of one dimension; None: all processes
    context    of this rank's tokens, for encodings that read their layer
    scale, backend  as in `attend`

    A rank holds its own keys and values, those that it has at the time, and those on their way: the
    backward pass sends them around again, with their gradients, and computes weights anew. Tables
    and angles are made of this rank's tokens alone; where keys cannot be turned before they are
    sent, their angles go with them. A forget gate's sum goes on from rank to rank. Gradients of
    parameters are those of this rank's queries and what its keys gave to others: sum them over
    ranks, as for any data that is split.

    Ranks that were given other shapes, dtypes, positions, plans or encodings are told so on every
    rank, the first time that positions are used: a GPU is waited for then.

    Raises UnsupportedError for CoPE, whose counts go over the keys of all ranks, for payloads that
    do not add up (PaTH, SelectiveRotary's convolution), and for numbers that are given for pairs
    (FIRE of explicit positions, KERPLE of fractional ones), ShapeError for tensors that are no part
    of these positions, PositionsError where the plan cannot cut them.

    Source: Liu et al. 2023, arXiv:2310.01889 (Ring Attention); Brandon et al. 2023,
    arXiv:2311.09431 (Striped Attention).

    Example:

        whole = posenc.Positions.build(tokens, causal=True)
        out = posenc.ring_attend(q, k, v, posenc.Rotary(64), positions=whole, plan="zigzag")
    """
    from posenc.parallel.process_group import ProcessGroup as Group

    comm = Group(group)
    sharded = fitted(positions, comm.size, plan, "zigzag")
    check_agreed(comm, sharded, (q, k, v), encoding, context)
    return ring(
        comm,
        [q],
        [k],
        [v],
        encoding,
        positions=sharded,
        contexts=[context],
        scale=scale,
        backend=backend,
    )[0]


def ring(
    comm: Communicator,
    q: Sequence[Tensor],
    k: Sequence[Tensor],
    v: Sequence[Tensor],
    encoding: Lowerable = None,
    *,
    positions: Positions | Sharded,
    plan: str | Plan | None = None,
    contexts: Sequence[Context | None] | None = None,
    scale: float | None = None,
    backend: str = "auto",
) -> list[Tensor]:
    """The same of every rank that runs here: one of a process group, or all of a simulator."""
    sharded = fitted(positions, comm.size, plan, "zigzag")
    contexts = [None] * len(comm.ranks) if contexts is None else contexts
    lowered = _lowered(comm, q, encoding, contexts, sharded)
    heads = q[0].shape[1], k[0].shape[1]
    terms: list[tuple[Term, ...]] = []
    flat: list[Tensor] = []
    for low, own_q, own_k, own_v in zip(lowered, q, k, v, strict=True):
        check_shapes(own_q, own_k, own_v)
        check_part(own_q, sharded)
        # Keys are multiplied before they are sent, so that no matrices go with them.
        own_q, own_k, own_v, low = carried_out(own_q, own_k, own_v, low)
        held = low.terms
        if _turns_alone(low, *heads):
            own_q, own_k, held = _turned(own_q, own_k, low)
        terms.append(held)
        flat += [own_q, own_k, own_v, *tensors_of(held).values()]
    meetings = sharded.meetings(visibility_of(terms[0], sharded.whole))
    places = list(tensors_of(terms[0])), key_paths(terms[0])
    settings = scale, backend, arithmetic(*flat[:3])
    return list(Ring.apply(Job(comm, sharded, terms, *places, meetings, *settings), *flat))


def _lowered(
    comm: Communicator,
    q: Sequence[Tensor],
    encoding: Lowerable,
    contexts: Sequence[Context | None],
    sharded: Sharded,
) -> list[Lowered]:
    """Terms of the tokens of each rank here, with what is before them on others."""
    if isinstance(encoding, Lowered):
        raise UnsupportedError(
            "ring_attend makes terms of this rank's tokens: give the encoding, not what lower made"
        )
    made = []
    for rank, x, context in zip(
        comm.ranks, q, carried(comm, encoding, contexts, sharded, q[0].shape[0]), strict=True
    ):
        mine = sharded.parts[rank]
        if context is not None and context.payload is not None:
            # Of padding nothing is in these payloads any more but what is before it.
            mine = replace(mine, keys=replace(mine.keys, valid=None))
        made.append(lower(encoding, mine, context=context, dtype=arithmetic(x)))
    for term in made[0].terms:
        if type(term) in _REFUSED:
            raise UnsupportedError(
                f"ring_attend({encoding!r}): {type(term).__name__}, for {_REFUSED[type(term)]}; "
                "use ulysses_attend, which has all tokens of some heads on every rank"
            )
    return made


def _turns_alone(lowered: Lowered, heads: int, key_heads: int) -> bool:
    """Whether keys can be turned before they are sent, so that no angles go with them."""
    turns = [term for term in lowered.terms if isinstance(term, Rotate)]
    if len(turns) != 1 or turns[0].grows or turns[0].k_angle is None:
        # What grows with position cancels in pairs alone.
        return False
    if any(isinstance(term, GatherTable) for term in lowered.terms):
        return False
    own = vars(turns[0]).values()
    # Angles that learn do so from sums over tokens, which are not rounded where they travel.
    learns = any(isinstance(x, Tensor) and x.requires_grad for x in own)
    return not learns and turns[0].k_angle.shape[1] in (1, key_heads) and heads >= key_heads


def _turned(q: Tensor, k: Tensor, lowered: Lowered) -> tuple[Tensor, Tensor, tuple[Term, ...]]:
    """q and k turned, and the terms without what turns."""
    turns = tuple(term for term in lowered.terms if isinstance(term, Rotate))
    rest = tuple(term for term in lowered.terms if not isinstance(term, Rotate))
    q, k = rotate(q, k, lowered.with_terms(turns, arithmetic(q, k)))
    return q, k, rest
