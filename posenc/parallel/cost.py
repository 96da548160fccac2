"""What attention costs a rank, on paper: bytes that it keeps and sends, and pairs that it sees.

Letters: n tokens of a rank, h query heads, g key heads, d head dimension.
"""

from dataclasses import dataclass

import torch

from posenc.errors import PositionsError, whole
from posenc.positions import Positions
from posenc.positions.plans import Plan, tokens_of_ranks


@dataclass(frozen=True)
class Layer:
    """The sizes of one attention layer and of its input.

    width  bytes of a number of q, k and v; sums over ranks take 4 at least

    Example: `Layer(tokens=2**20, heads=64, key_heads=8, head_dim=128)`.

    Raises SettingError for sizes below 1.
    """

    tokens: int
    heads: int
    key_heads: int
    head_dim: int
    batch: int = 1
    width: int = 2

    def __post_init__(self) -> None:
        whole("Layer", **vars(self))

    @property
    def sum_width(self) -> int:
        return max(4, self.width)

    def of_rank(self, size: int, heads: int) -> int:
        """How many numbers of so many heads a rank has, for one of q, k and v."""
        if self.tokens % size:
            raise PositionsError(
                f"{self} on {size} ranks: the tokens are no multiple of the ranks; pad to "
                f"{-(-self.tokens // size) * size}"
            )
        return self.batch * (self.tokens // size) * heads * self.head_dim


@dataclass(frozen=True)
class Cost:
    """Bytes of one rank for one layer; position terms, where they travel, are aside.

    kept      for the backward pass: q, k and v, the output, and the log of the sum of each row
    moving    most that is held beside at one time: other ranks' keys and values, sums of gradients,
              or what an exchange sends while it receives
    forward   sent to other ranks in the forward pass
    backward  the same in the backward pass
    """

    kept: int
    moving: int
    forward: int
    backward: int


def ring(layer: Layer, size: int) -> Cost:
    """`ring_attend`: keys go around, and once more in the backward pass, with their gradients.

    With K = 2 n g d numbers of keys and values, forward (size - 1) K, and backward as many and
    size K of gradients, which end where their keys are.
    """
    keys = 2 * layer.of_rank(size, layer.key_heads)
    block, sums = keys * layer.width, keys * layer.sum_width
    alone = size == 1
    return Cost(
        kept=_kept(layer, size, layer.key_heads, layer.sum_width),
        # Two blocks come and go beside the sums, or one while sums come and go.
        moving=sums if alone else max(min(size - 1, 2) * block + sums, block + 2 * sums),
        forward=(size - 1) * block,
        backward=0 if alone else (size - 1) * block + size * sums,
    )


def gather(layer: Layer, size: int) -> Cost:
    """Every rank gathers all keys and values and attends, by plain autograd.

    All of them are kept, and their gradients are summed where they belong.
    """
    block = 2 * layer.of_rank(size, layer.key_heads) * layer.width
    return Cost(
        kept=_kept(layer, size, size * layer.key_heads, layer.width),
        moving=size * block,
        forward=(size - 1) * block,
        backward=(size - 1) * block,
    )


def ulysses(layer: Layer, size: int) -> Cost:
    """`ulysses_attend`: tokens for heads in one exchange, outputs back in another.

    Where there are fewer key heads than ranks, ranks hold copies of them.

    Raises PositionsError where the heads are no multiple of the ranks.
    """
    if layer.heads % size:
        raise PositionsError(
            f"{layer} on {size} ranks: Ulysses gives each rank some of {layer.heads} query heads: "
            "use a ring, or fewer ranks"
        )
    copied = max(layer.key_heads, size)
    numbers = 2 * layer.of_rank(size, layer.heads) + 2 * layer.of_rank(size, copied)
    sent = numbers * layer.width * (size - 1) // size
    return Cost(
        kept=_kept(layer, size, copied, layer.width),
        moving=layer.of_rank(size, max(layer.heads, copied)) * layer.width,
        forward=sent,
        backward=sent,
    )


def causal_work(positions: Positions, size: int, plan: str | Plan) -> list[int]:
    """How many pairs each rank computes under causality, windows aside; what is padding sees none.

    Example: `causal_work(Positions.build(64, causal=True), 4, "zigzag")` is [520] * 4.
    """
    seen = positions.orders()[1] + 1
    if positions.keys.valid is not None:
        seen = torch.where(positions.keys.valid, seen, 0)
    tokens = tokens_of_ranks(plan, positions.k_len, size).to(seen.device)
    return seen[..., tokens].sum(-1).view(-1, size).sum(0).tolist()


def _kept(layer: Layer, size: int, key_heads: int, out_width: int) -> int:
    queries, keys = layer.of_rank(size, layer.heads), layer.of_rank(size, key_heads)
    rows = queries // layer.head_dim
    return (queries + 2 * keys) * layer.width + queries * out_width + rows * layer.sum_width
