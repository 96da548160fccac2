"""One side of Positions: the queries or the keys.

Letters: b batch, t tokens; `1|b` broadcasts over the batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.errors import PositionsError, shown
from posenc.torch_modes import plain

_PER_TOKEN = ("order", "document", "length", "valid")


@dataclass(frozen=True, eq=False)
class Tokens:
    """Where t tokens are: coordinates, order, document, length of their sequence, and padding.

    position  (t,), (b, t) or (b, t, axes); int64 or float64
    order     int64 (t,) or (b, t); None: counted, keys from 0, queries as the last of the keys
    document  int64 (t,) or (b, t): only tokens of one document see each other
    length    int64 (t,) or (b, t): how far the own sequence of each token reaches
    valid     bool (b, t): False marks padding

    Example: `Tokens(torch.arange(4))`.

    Raises PositionsError for wrong dtypes and shapes. Values are checked by `Positions.build`.
    """

    position: Tensor
    order: Tensor | None = None
    document: Tensor | None = None
    length: Tensor | None = None
    valid: Tensor | None = None

    def __post_init__(self) -> None:
        position = self.position
        if not isinstance(position, Tensor):
            raise PositionsError(f"Tokens(position={shown(position)}): give a tensor")
        if position.dtype not in (torch.int64, torch.float64):
            raise PositionsError(
                f"Tokens(position=...) has dtype {position.dtype}: positions are int64 or "
                "float64, never the activations' dtype; convert with .long() or .double()"
            )
        if not 1 <= position.ndim <= 3:
            raise PositionsError(
                f"Tokens(position=...) has shape {tuple(position.shape)}: "
                "(t,), (b, t) or (b, t, axes) is needed"
            )
        for name, value in zip(_PER_TOKEN, self._told(), strict=True):
            if value is None:
                continue
            if not isinstance(value, Tensor):
                raise PositionsError(f"Tokens({name}={shown(value)}): give a tensor")
            dtype, dims = (torch.bool, (2,)) if name == "valid" else (torch.int64, (1, 2))
            if value.ndim not in dims or value.shape[-1] != self.count or value.dtype != dtype:
                shapes = " or ".join(("(t,)", "(b, t)")[dim - 1] for dim in dims)
                raise PositionsError(
                    f"Tokens({name}=...) has shape {tuple(value.shape)} and {value.dtype}, "
                    f"but there are {self.count} positions: {shapes} of {dtype} is needed"
                )

    @property
    def count(self) -> int:
        """How many tokens there are."""
        shape = self.position.shape
        return shape[0] if len(shape) == 1 else shape[1]

    @property
    def batch(self) -> int:
        """How many rows these tokens tell apart; 1 where they hold for every row."""
        rows = [x.shape[0] for x in self._tensors() if x is not None and x.ndim > 1]
        return max(1, *rows) if rows else 1

    def __getitem__(self, index: slice | Tensor) -> "Tokens":
        """The tokens of a slice, or of an index (n,) int64.

        A counted order stays counted, which is right for the first keys and the last queries;
        before taking others give them their orders, by `Positions.ordered`.

        Example: `tokens[2:5]`, `tokens[torch.tensor([0, 3])]`.

        Raises PositionsError for another index, and for the midst of a counted order.
        """
        inner = True
        if isinstance(index, slice):
            inner = index.start is not None and index.stop is not None
        elif not isinstance(index, Tensor) or index.ndim != 1 or index.dtype != torch.int64:
            raise PositionsError(
                f"Tokens[{index!r}]: a slice, or an index (n,) of int64, is needed"
            )
        if inner and self.order is None:
            raise PositionsError(
                f"Tokens[{index!r}] of tokens whose order is counted would count anew: "
                "take them from positions.ordered()"
            )

        def cut(x: Tensor, axis: int) -> Tensor:
            if isinstance(index, Tensor):
                return x.index_select(axis, index)
            return x[index] if axis == 0 else x[:, index]

        told = [None if x is None else cut(x, x.ndim - 1) for x in self._told()]
        return Tokens(cut(self.position, self._axis), *told)

    def __add__(self, later: "Tokens") -> "Tokens":
        """These tokens and later ones behind them; lengths, which grow by that, are left out.

        Raises PositionsError where only one of both tells an order, a document or what is padded.
        """
        position = _joined(self, later, "position", -2 if self.position.ndim == 3 else -1)
        assert position is not None
        told = {name: _joined(self, later, name, -1) for name in ("order", "document", "valid")}
        return Tokens(position, **told)

    def rows(self, index: Tensor) -> "Tokens":
        """The same tokens with these rows of the batch, int64 (b,)."""

        def chosen(x: Tensor | None) -> Tensor | None:
            return x if x is None or x.ndim == 1 or x.shape[0] == 1 else x.index_select(0, index)

        position, *rest = map(chosen, self._tensors())
        assert position is not None
        return Tokens(position, *rest)

    def last(self, count: int) -> "Tokens":
        """The last `count` tokens: the queries among the keys. All of them are the same object."""
        return self if count == self.count else self[self.count - count :]

    @property
    def _axis(self) -> int:
        return 0 if self.position.ndim == 1 else 1

    def _told(self) -> tuple[Tensor | None, ...]:
        return self.order, self.document, self.length, self.valid

    def _tensors(self) -> tuple[Tensor | None, ...]:
        return self.position, *self._told()


torch.export.register_dataclass(Tokens, serialized_type_name="posenc.Tokens")


def one_axis(coordinates: Tensor, reader: str) -> Tensor:
    """The coordinates (t,) or (b, t), or an error where there are several axes."""
    if coordinates.ndim == 3:
        raise PositionsError(
            f"{reader} reads one coordinate per token, but the positions have shape "
            f"{tuple(coordinates.shape)}, (b, t, axes): give one axis"
        )
    return coordinates


def reading_values() -> bool:
    """Whether values may be looked at: a traced graph takes Positions checked outside of it."""
    return not torch.compiler.is_compiling()


def check_tensors(call: str, **tensors: Tensor) -> None:
    """Raise PositionsError for what is no tensor, and for tensors of the meta device."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise PositionsError(f"{call}({name}={shown(tensor)}): give a tensor")
        if tensor.is_meta and reading_values():
            raise PositionsError(
                f"{call}({name}=...) is on the meta device, where tensors have no values: give it "
                "on a device that has"
            )


def check_whole(call: str, **numbers: int | None) -> None:
    """Raise PositionsError for numbers of tokens that are not whole."""
    for name, number in numbers.items():
        counts = number is None or isinstance(number, (int, torch.SymInt))
        if not counts and not hasattr(number, "__index__"):
            raise PositionsError(f"{call}({name}={shown(number)}): give a whole number")


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
        "For cross-attention build Positions(Tokens(...), Tokens(...)) from both sides' "
        "coordinates, with an order for each where a mask reads them"
    )


def whole_or_double(coordinates: Tensor) -> Tensor:
    """Coordinates as int64 or float64; half precision has lost the odd ones beyond 256 or 2048."""
    if not isinstance(coordinates, Tensor):
        raise PositionsError(f"positions={shown(coordinates)}: give a tensor of coordinates")
    if coordinates.ndim not in (1, 2, 3):
        raise PositionsError(
            f"positions of shape {tuple(coordinates.shape)}: (t,), (b, t) or (b, t, axes) is needed"
        )
    if coordinates.dtype in (torch.bfloat16, torch.float16):
        raise PositionsError(
            f"positions of dtype {coordinates.dtype} are rounded already: "
            "positions are int64 or float64, never the activations' dtype"
        )
    if coordinates.dtype == torch.bool or coordinates.is_complex():
        raise PositionsError(
            f"positions of dtype {coordinates.dtype}: int64 or float64 are needed; a mask of real "
            "tokens goes to Positions.build(attention_mask=...)"
        )
    return coordinates.double() if coordinates.is_floating_point() else coordinates.long()


def unfitting(q_len: int, k_len: int, queries: Tokens, keys: Tokens) -> str:
    """What is wrong with positions of these tokens for so many queries and keys."""
    told, shape = f"{queries.count} queries and {keys.count} keys", tuple(keys.position.shape)
    said = f"{q_len} queries and {k_len} keys, but positions for {told}"
    if len(shape) != 2 or shape[0] != k_len:
        return said
    return f"{said}: {shape} are {k_len} rows; coordinates of {k_len} tokens are (b, t, axes)"


def bare(coordinates: Tensor) -> Tensor:
    """A tensor that was given in place of Positions, as coordinates, which must be finite.

    A GPU is not asked, for whose answer every forward pass would wait.
    """
    made = whole_or_double(coordinates)
    if made.is_floating_point() and reading_values() and made.is_cpu and plain(made):
        known = made.isfinite()
        if not known.all():
            place = known.logical_not().nonzero()[0].tolist()
            raise PositionsError(
                f"positions of shape {tuple(made.shape)} hold {made[tuple(place)].item()} at "
                f"{place}: coordinates are finite; padding is told by "
                "Positions.build(ids=..., attention_mask=...)"
            )
    return made


def device_of(
    call: str, told: dict[str, Tensor], otherwise: torch.device | str | None = None
) -> torch.device | str | None:
    """The one device of all tensors, which can be read."""
    devices = {tensor.device for tensor in told.values() if isinstance(tensor, Tensor)}
    if len(devices) > 1:
        places = ", ".join(f"{name} on {tensor.device}" for name, tensor in told.items())
        raise PositionsError(f"{call}: {places}: move them to one device")
    check_tensors(call, **told)
    return devices.pop() if devices else otherwise


# No function within a method, for torch 2.7 cannot trace annotations that it makes there.
def _joined(one: Tokens, later: Tokens, name: str, axis: int) -> Tensor | None:
    """What both tell by this name, one after the other."""
    x, y = getattr(one, name), getattr(later, name)
    if x is None and y is None:
        return None
    if x is None or y is None:
        raise PositionsError(
            f"Tokens + Tokens: one of them tells {name}, the other does not: give both"
        )
    if x.shape[:axis] != y.shape[:axis]:
        rows = torch.broadcast_shapes(x.shape[:axis], y.shape[:axis])
        x, y = (t.expand(*rows, *t.shape[axis:]) for t in (x, y))
    return torch.cat((x, y), dim=axis)
