"""What an arrangement says of the tokens of one side, queries or keys.

Letters: b batch, t tokens; `1|b` broadcasts over the batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.errors import PositionsError


@dataclass(frozen=True, eq=False)
class Tokens:
    """Coordinates, order, document and length of sequence of t tokens.

    at        (t,), (b, t) or (b, t, axes)
    order     (t,) or (b, t); None: keys count from 0, queries are the last of them
    document  (t,) or (b, t); None: one
    length    (t,) or (b, t), of the sequence that each is in; None: the bound on all positions
    """

    at: Tensor
    order: Tensor | None = None
    document: Tensor | None = None
    length: Tensor | None = None

    @property
    def count(self) -> int:
        return self.at.shape[0] if self.at.ndim == 1 else self.at.shape[1]

    def last(self, count: int) -> "Tokens":
        """The last `count` tokens: the queries among the keys. All of them are the same object."""
        if count == self.count:
            return self
        last = slice(self.count - count, None)
        at = self.at[last] if self.at.ndim == 1 else self.at[:, last]
        rest = (self.order, self.document, self.length)
        return Tokens(at, *(None if t is None else t[..., last] for t in rest))


def reading_values() -> bool:
    """Whether values may be looked at: a traced graph takes Positions checked outside of it."""
    return not torch.compiler.is_compiling()


def check_readable(call: str, **tensors: Tensor) -> None:
    """Raise PositionsError for tensors of the meta device, whose values nobody could check."""
    for name, tensor in tensors.items():
        if tensor.is_meta and reading_values():
            raise PositionsError(
                f"{call}({name}=...) is on the meta device, where tensors have no values: give it "
                "on a device that has"
            )


def length_of(at: Tensor, document: Tensor | None, valid: Tensor | None) -> Tensor:
    """The largest position + 1 in the own sequence of each token, (t,) or (b, t).

    Padding, batch mates and other documents are aside.
    """
    reach = (at.amax(dim=-1) if at.ndim == 3 else at).ceil().long() + 1
    for other in (document, valid):
        if other is not None and other.ndim > reach.ndim:
            reach = reach.expand(other.shape)
    rows = reach.view(-1, reach.shape[-1])
    if valid is not None:
        rows = torch.where(valid, rows, torch.ones_like(rows))
    if document is None:
        return rows.amax(-1, keepdim=True).expand(rows.shape).view(reach.shape)
    of = document.expand(rows.shape)
    changes = (of[:, 1:] != of[:, :-1]).long().cumsum(-1)
    segment = torch.cat((torch.zeros_like(rows[:, :1]), changes), dim=-1)
    longest = torch.zeros_like(rows).scatter_reduce(1, segment, rows, "amax")
    return longest.gather(1, segment).view(reach.shape)


def check_sizes(call: str, q_len: int, k_len: int) -> None:
    """Raise PositionsError where there is no token, or more queries than keys."""
    if q_len < 1:
        raise PositionsError(
            f"{call}: {q_len} queries and {k_len} keys: at least one token is needed"
        )
    if q_len > k_len:
        raise PositionsError(f"{call}: {more_queries(q_len, k_len)}")


def more_queries(q_len: int, k_len: int) -> str:
    return (
        f"{q_len} queries but only {k_len} keys: the queries are the last tokens of the keys. "
        "For cross-attention build Positions(q=..., k=...) from both sides' coordinates, with "
        "q_order and k_order where a mask reads them"
    )
