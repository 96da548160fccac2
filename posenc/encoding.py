"""The contract of an encoding: it changes the embeddings, or it lowers to terms."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn

from posenc.errors import PositionsError, SettingError
from posenc.positions import Positions, as_positions
from posenc.terms import Term

# Shapes of the references, by role; all float64, with as many key heads as query heads.
Queries = Float64[Tensor, "b h tq d"]
Keys = Float64[Tensor, "b h tk d"]
Scores = Float64[Tensor, "b h tq tk"]
Visible = Bool[Tensor, "b 1 tq tk"]
Family = Literal["none", "absolute", "rotary", "bias", "content", "mask", "scale"]


@dataclass(frozen=True)
class Tags:
    """What an encoding claims; the check suite holds it to that.

    A string in place of True or False is the reason why the claim is not made.
    """

    causal_only: bool = False
    length_dependent: bool = False
    needs_context: bool = False
    needs_extent: bool = False
    translation_invariant: bool = False
    norm_preserving: bool = False
    every_layer: bool = False
    compiles: bool | str = True
    exports: bool | str = True
    comparable: bool | str = True


@dataclass(frozen=True)
class Context:
    """What an encoding that depends on content may read, from the layer that calls it.

    x          block input (b, tq, c)
    payload    what `Encoding.payload` made of every key so far; appended by the cache
    project_q  maps a table (rows, c), at least float32, to (h, rows, d) by the layer's own query
               weights
    project_k  the same by its key weights
    own        which keys the queries are themselves, int64 (tq,), told by a cache whose new tokens
               are not the last of its slots; None: the last
    """

    x: Tensor | None = None
    payload: Tensor | None = None
    project_q: Any = None
    project_k: Any = None
    own: Tensor | None = None


@dataclass(frozen=True)
class Pairs:
    """What a reference reads besides q and k: coordinates, the scale of q . k, and the context.

    q_order, k_order  the index of each token in its own sequence, which masks read; None where
                      coordinates are these indices
    """

    q: Float64[Tensor, "b tq *axes"]
    k: Float64[Tensor, "b tk *axes"]
    scale: float
    context: Context | None = None
    q_order: Int[Tensor, "b tq"] | None = None
    k_order: Int[Tensor, "b tk"] | None = None

    def distance(self) -> Float64[Tensor, "b 1 tq tk"]:
        """k_position - q_position of every pair."""
        return self.k[:, None, None, :] - self.q[:, None, :, None]

    def orders(self) -> tuple[Tensor, Tensor]:
        """The order of every query (b, 1, tq, 1) and of every key (b, 1, 1, tk)."""
        q = self.q if self.q_order is None else self.q_order
        k = self.k if self.k_order is None else self.k_order
        return q[:, None, :, None], k[:, None, None, :]


class Encoding(nn.Module):
    """Base of every encoding: no position at all until a method is overridden.

    A member overrides `embed` (absolute) or `lower` (all others), and `reference_embed` or
    `reference_scores` with the paper's formula; one that hides pairs also `reference_visible`.
    Each constructor argument is kept as an attribute of the same name; the repr is made from them,
    and evaluates to an equal encoding.
    """

    name: ClassVar[str] = ""
    family: Family = "none"
    paper: ClassVar[str] = ""
    # An instance whose settings change what it claims replaces its own copy.
    tags: Tags = Tags()
    # The sizes of a model that `for_model` gives to the constructor, in order.
    sizes: ClassVar[tuple[str, ...]] = ()
    # Learned parameters that must stay float32 when the module is cast down.
    keep_float32: tuple[str, ...] = ()
    # Whether the payload of a token left out may be added to the next one's, with 0 for none.
    payload_adds: bool = False

    heads: int | None = None
    head_dim: int | None = None
    model_dim: int | None = None
    # Coordinates that it reads of a token, where positions have several.
    axes: int = 1

    def __init__(self) -> None:
        super().__init__()
        # On the instance, for torch 2.7's dynamo cannot read it from the class of a module.
        self.tags = type(self).tags

    def embed(
        self, x: Float[Tensor, "b t c"], positions: Positions | Tensor | None, *, layer: int = 0
    ) -> Float[Tensor, "b t c_out"]:
        """x with its position; absolute encodings override this."""
        return x

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        """Terms for these positions; `dtype` is that of tables that no parameter enters."""
        return ()

    def embedded_width(self, dim: int) -> int:
        """Width of `embed`'s output for an input of width `dim`; merging by concat widens it."""
        return dim

    def payload(self, x: Float[Tensor, "b t c"]) -> Tensor | None:
        """What later queries must know of these tokens; (b, ..., t), appended by the cache."""
        return None

    @classmethod
    def for_model(
        cls,
        *,
        model_dim: int,
        heads: int,
        head_dim: int,
        max_length: int,
        train_length: int,
        causal: bool,
    ) -> "Encoding":
        """An instance with sensible settings for a model of these sizes.

        max_length is the longest input that must be accepted, train_length the longest that the
        model is trained on: what is learned per distance must fit the latter. Here the
        constructor gets what the class names in `sizes`; a member with a rule overrides this.
        """
        sizes = {
            "model_dim": model_dim,
            "heads": heads,
            "head_dim": head_dim,
            "max_length": max_length,
        }
        return cls(*(sizes[name] for name in cls.sizes))

    @classmethod
    def examples(cls) -> Iterator["Encoding"]:
        """Small instances: they feed the checks, the docs, the CLI and the benchmarks."""
        yield cls()

    def reference_embed(
        self, x: Float64[Tensor, "b t c"], positions: Float64[Tensor, "b t *axes"]
    ) -> Float64[Tensor, "b t c_out"]:
        """The paper's formula for `embed`, slow and plain, in float64."""
        return x

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        """The paper's formula for the scores before any mask, slow and plain, in float64."""
        return at.scale * torch.einsum("bhid,bhjd->bhij", q, k)

    def reference_visible(self, at: Pairs) -> Visible:
        """The paper's rule of who may see whom, beside causality, documents and padding."""
        q, k = at.orders()
        return torch.ones_like(q - k, dtype=torch.bool)

    def reference_weights(self, s: Scores) -> Scores:
        """The paper's formula for attention weights from scores, -inf where hidden, in float64."""
        empty = (s == -torch.inf).all(dim=-1, keepdim=True)
        return s.masked_fill(empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0)

    def reference_output(self, p: Scores, v: Keys, at: Pairs) -> Queries:
        """The paper's formula for the output from attention weights p, in float64."""
        return torch.einsum("bhij,bhjd->bhid", p, v)

    def settings(self) -> dict[str, Any]:
        """Constructor arguments of this instance, by name."""
        names = list(inspect.signature(type(self)).parameters)
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        shown = {
            name: value.__name__ if isinstance(value, FunctionType) else repr(value)
            for name, value in self.settings().items()
        }
        inner = ", ".join(f"{name}={value}" for name, value in shown.items())
        return f"{type(self).__name__}({inner})"

    def _apply(self, fn: Any, recurse: bool = True) -> "Encoding":
        kept = {name: self.get_parameter(name).data for name in self.keep_float32}
        super()._apply(fn, recurse)
        for name, before in kept.items():
            parameter = self.get_parameter(name)
            if parameter.dtype in (torch.bfloat16, torch.float16):
                parameter.data = before.to(parameter.device)
        return self


def embedding_positions(
    owner: Encoding, x: Float[Tensor, "b t c"], positions: Positions | Tensor | None
) -> Positions:
    """Positions for `embed`, after checking that x are embeddings of the width of `owner`."""
    if x.ndim != 3 or (owner.model_dim is not None and x.shape[-1] != owner.model_dim):
        raise SettingError(
            f"{type(owner).__name__}(dim={owner.model_dim}).embed got x of shape "
            f"{tuple(x.shape)}: (b, t, {owner.model_dim}) is needed"
        )
    if not x.is_floating_point():
        raise SettingError(
            f"{type(owner).__name__}.embed got x of {x.dtype}: embeddings are needed, in floating "
            "point, not ids of tokens"
        )
    if isinstance(positions, Positions):
        # While decoding x holds the new tokens only: the queries of these positions.
        placed = as_positions(positions, x.shape[1], positions.k_len)
    else:
        placed = as_positions(positions, x.shape[1], device=x.device)
    # One row of x would broadcast, and widen the output.
    if placed.batch != 1 and placed.batch != x.shape[0]:
        raise PositionsError(
            f"positions for a batch of {placed.batch}, but {type(owner).__name__}.embed got x of "
            f"shape {tuple(x.shape)}: give one row, or one per batch entry"
        )
    return placed


def bound_for(encoding: Encoding, positions: Positions) -> int:
    """The bound on position + 1 that an encoding needs, or an error that says how to give it."""
    if positions.bound is None:
        kind = type(encoding).__name__
        raise PositionsError(
            f"{kind} needs to know how far its positions reach. Instead of a bare tensor pass "
            "Positions.build(ids=...), in a graph Positions.build(ids=..., extent=...); of two "
            "sides, as in cross-attention, Positions(queries, keys, extent=N), N > every position"
        )
    return positions.bound


def reach_for(encoding: Encoding, positions: Positions) -> tuple[int, int]:
    """The farthest distances behind and ahead that an encoding needs, or that error."""
    bound = bound_for(encoding, positions)
    return positions.reach or (bound - 1, bound - 1)
