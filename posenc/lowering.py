"""From encodings to terms: `lower` once per forward, reuse the result in every layer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch
from torch import Tensor, nn

from posenc.encoding import Context, Encoding, bound_for
from posenc.errors import PositionsError, ShapeError, UnsupportedError, is_finite
from posenc.joint_payload import keeps, own_contexts
from posenc.normal_form.form import NormalForm
from posenc.normal_form.normalise import normalise, sizes_of
from posenc.normal_form.shapes import DEVICE, refuse_call, refuse_made
from posenc.positions import Documents, Positions, Tokens, as_positions, checked
from posenc.terms import (
    ChunkZones,
    Rotate,
    RotateValues,
    SinkLogit,
    Term,
    Transform,
    Turn,
)
from posenc.torch_modes import altered, device_of, fields_of, fitting, kept


@dataclass(frozen=True, eq=False)
class Lowered:
    """Terms together with their normal form, which carries the positions they were made for.

    `length_dependent` says that the terms hold for the length of these positions only, and
    `keys_prerotated` that they rotate no other keys than those that come unrotated.
    """

    terms: tuple[Term, ...]
    form: NormalForm
    length_dependent: bool = False
    keys_prerotated: bool = False

    __getstate__ = fields_of

    @property
    def positions(self) -> Positions:
        """Those that the terms were made for."""
        return self.form.positions

    def with_terms(self, terms: Sequence[Term], dtype: torch.dtype = torch.float32) -> "Lowered":
        """Other terms for the same positions, with the normal form of these."""
        return replace(self, terms=tuple(terms), form=normalise(terms, self.positions, dtype))

    @kept
    def with_rotated_keys(self) -> "Lowered":
        """The same for keys that come rotated, out of a cache."""
        terms = tuple(_with_rotated_keys(term) for term in self.terms)
        rotations = [term for term in terms if isinstance(term, (Rotate, ChunkZones))]
        rotation = rotations[0] if rotations else None
        form = altered(self.form, rotation=rotation, k_waves=None)
        if form.transform is not None:
            form = altered(form, transform=altered(form.transform, k=None))
        if form.value_rotation is not None:
            value_waves = None if form.value_waves is None else (form.value_waves[0], None)
            own = altered(form.value_rotation, k_angle=None)
            form = altered(form, value_rotation=own, value_waves=value_waves)
        return altered(self, terms=terms, form=form)

    @kept
    def after_transform(self) -> "Lowered":
        """The same for queries and keys that are multiplied."""
        terms = tuple(term for term in self.terms if not isinstance(term, Transform))
        return altered(self, terms=terms, form=altered(self.form, transform=None))

    def with_sink(self, values: Tensor) -> "Lowered":
        """The same with one SinkLogit more, of a layer that has its own; all else is shared."""
        own = self.form.sink
        sink = values if own is None else torch.logaddexp(own, values)
        terms = (*self.terms, SinkLogit(values))
        made_for = sizes_of(terms, self.positions)
        return altered(self, terms=terms, form=altered(self.form, sink=sink, made_for=made_for))


torch.export.register_dataclass(Lowered, serialized_type_name="posenc.Lowered")

Part = Encoding | Term | Documents
# As a tuple, for torch 2.7's dynamo cannot trace isinstance with a union.
PARTS = (Encoding, Documents, *get_args(Term))
# Of which a call has one, and why.
_ALONE: tuple[tuple[Any, str, str], ...] = (
    (
        get_args(Turn),
        "rotations",
        "queries and keys can be rotated once, choose one rotary encoding",
    ),
    (RotateValues, "rotations of values", "values can be rotated once"),
    (Transform, "Transforms", "queries and keys can be multiplied once"),
)
_TURNS = Transform, Rotate, RotateValues
# What attend, scores and rotate take: a part, a list that composes parts, or what `lower` made.
Lowerable = Part | Sequence[Part | Sequence[Part]] | nn.ModuleList | Lowered | None


def flatten(encoding: Lowerable) -> list[Part]:
    """A part, or a (nested) list that composes parts, as a flat list."""
    if encoding is None:
        return []
    if isinstance(encoding, (list, tuple, nn.ModuleList)):
        items: Iterable[Any] = encoding
        return [part for item in items for part in flatten(item)]
    if not isinstance(encoding, PARTS):
        raise UnsupportedError(
            f"{type(encoding).__name__} is no encoding: give a posenc.Encoding, a term, a list "
            "that composes them, or what posenc.lower returned"
        )
    return [encoding]


def embeds_only(encoding: Part) -> bool:
    """Whether an encoding acts on embeddings and has nothing to say to attention."""
    if not isinstance(encoding, Encoding):
        return False
    kind = type(encoding)
    return kind.embed is not Encoding.embed and kind.lower is Encoding.lower


def lower(
    encoding: Lowerable,
    positions: Positions | Tensor | int | None = None,
    *,
    causal: bool | None = None,
    context: Context | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
    keys_prerotated: bool | Tokens = False,
) -> Lowered:
    """Terms for these positions, made once and reused by every layer.

    positions   Positions, coordinates of every token, or a number of tokens
    dtype       of cos, sin and of tables that no parameter enters; angles are always float64
    keys_prerotated  for a rotated cache: keys come rotated, but for the queries' own tokens, so
                that rotary encodings make angles for these alone; or but for these Tokens

    Raises UnsupportedError for an encoding that only changes embeddings and for two rotations or
    Transforms, PositionsError where an encoding needs an extent or a context that is not there, and
    where a term cannot read these positions, ShapeError for terms of different numbers of heads.

    Example:

        lowered = posenc.lower(posenc.T5Bias(heads=8), 256, causal=True)
        layers = [posenc.attend(q, k, v, lowered) for q, k, v in torch.randn(2, 3, 1, 8, 256, 64)]
    """
    if isinstance(encoding, Lowered):
        if positions is not None and positions is not encoding.positions:
            raise PositionsError(
                "lowered terms carry the positions that they were made for: "
                "leave positions away, or lower the encoding again"
            )
        if causal is not None and causal != encoding.positions.causal:
            raise PositionsError(
                f"causal={causal}, but the terms were lowered with "
                f"causal={encoding.positions.causal}: lower the encoding again"
            )
        return encoding
    parts = flatten(encoding)
    if isinstance(positions, (int, torch.SymInt)):
        positions = as_positions(None, positions, causal=causal, device=device)
    elif isinstance(positions, Tensor):
        tokens = positions.numel() if positions.ndim < 2 else positions.shape[1]
        positions = as_positions(positions, tokens, causal=causal)
    else:
        positions = checked(positions, causal)
    for part in parts:
        if isinstance(part, Documents):
            positions = part.place(positions)
    fresh = positions.queries if keys_prerotated is True else keys_prerotated or None
    fresh = fresh if positions.q_len < positions.k_len else None
    own_only = by_length = False
    terms: list[Term] = []
    contexts = [context] * len(parts)
    if context is not None:
        contexts = own_contexts(parts, context, positions)
    for part, own in zip(parts, contexts, strict=True):
        if isinstance(part, Encoding):
            _check_needs(part, positions, own)
            by_length = by_length or part.tags.length_dependent
            made = _of_fresh_keys(part, positions, fresh, own, dtype)
            own_only = own_only or made is not None
            made = part.lower(positions, own, dtype=dtype) if made is None else made
            terms.extend(made if isinstance(made, (tuple, list)) else refuse_made(part, made))
        elif not isinstance(part, Documents):
            terms.append(part)
    if len(terms) > 1:
        _check_alone(terms, encoding)
    return fitting(
        Lowered,
        terms=tuple(terms),
        form=normalise(terms, positions, dtype),
        length_dependent=by_length,
        keys_prerotated=own_only,
    )


def _check_alone(terms: Sequence[Term], encoding: Lowerable) -> None:
    """Raise UnsupportedError for two terms of a kind of which a call has one."""
    for kind, named, why in _ALONE:
        count = sum(isinstance(term, kind) for term in terms)
        if count > 1:
            raise UnsupportedError(f"{count} {named} in one call ({encoding!r}): {why}")


def _with_rotated_keys(term: Term) -> Term:
    if isinstance(term, ChunkZones):
        return altered(term, same=altered(term.same, k_angle=None))
    if isinstance(term, Transform):
        return altered(term, k=None)
    return altered(term, k_angle=None) if isinstance(term, (Rotate, RotateValues)) else term


def check_fits(encoding: Encoding, *, heads: int | None = None, head_dim: int) -> None:
    """Raise ShapeError for an encoding that was made for other heads than those of q."""
    for name, size in (("heads", heads), ("head_dim", head_dim)):
        made = getattr(encoding, name)
        if made is not None and size is not None and made != size:
            raise ShapeError(
                f"{encoding!r} was made for {name}={made}, but q has {name}={size}: "
                f"construct it for {name}={size}"
            )


def check_scale(scale: float | None) -> None:
    """Raise UnsupportedError for what is no finite number; not every backend learns a tensor."""
    if scale is not None and not isinstance(scale, torch.SymFloat) and not is_finite(scale):
        raise UnsupportedError(f"scale={scale!r}: give a number, and multiply q by what learns")


def check_sizes(form: NormalForm, q: Tensor, k: Tensor, v: Tensor | None) -> None:
    """Raise ShapeError for terms that were made for other tensors than these, None being any."""
    if not form.made_for:
        return
    (batch, heads, _, dim), key_heads = q.shape, k.shape[1]
    given = {"b": batch, "h": heads, "g": key_heads, "h|g": key_heads, "d": dim}
    given[DEVICE] = device_of(q)
    if v is not None:
        given["v"] = v.shape[3]
    for letter, name, size in form.made_for:
        found = given.get(letter, size)
        if letter == "h|g" and _shared(size, heads, key_heads):
            continue
        if found != size:
            refuse_call(letter, name, size, found)


def _shared(entries: int, heads: int, key_heads: int) -> bool:
    """Whether so many entries can be repeated for the heads, and for the key heads or these."""
    if entries == 0 or heads % entries:
        return False
    return key_heads % entries == 0 or entries % key_heads == 0


def _of_fresh_keys(
    part: Encoding,
    positions: Positions,
    keys: Tokens | None,
    context: Context | None,
    dtype: torch.dtype,
) -> tuple[Term, ...] | None:
    """A rotation of no other keys than these; None for what is not one, and where none came so."""
    # A payload is of all keys, whose sums may turn even the new ones.
    if keys is None or part.family != "rotary" or (context is not None and keeps(part)):
        return None
    # By themselves they would count from 0. posenc's own read no orders, which take a while.
    if not type(part).__module__.startswith("posenc.encodings."):
        told = positions.ordered()
        if keys.order is None:
            keys = (told.queries if keys is positions.queries else told.keys)[-keys.count :]
        positions = told
    made = part.lower(altered(positions, keys=keys, extent=positions.bound), context, dtype=dtype)
    turns = isinstance(made, (tuple, list)) and all(isinstance(x, _TURNS) for x in made)
    return tuple(made) if turns else None


def _check_needs(encoding: Encoding, positions: Positions, context: Context | None) -> None:
    kind, tags = type(encoding).__name__, encoding.tags
    if embeds_only(encoding):
        raise UnsupportedError(
            f"{kind} changes the embeddings and has no terms: call {kind}.embed(x, positions) "
            "before attention, and attend without it"
        )
    if tags.needs_context and context is None:
        raise PositionsError(
            f"{kind} reads the layer that calls it: pass context=posenc.Context(x=...), with "
            "project_q= and project_k= where it projects a table by the layer's weights"
        )
    if tags.needs_extent:
        # What reads lengths alone is content with those of each token.
        told = positions.queries.length is not None and positions.keys.length is not None
        if not (tags.length_dependent and told):
            bound_for(encoding, positions)
    if tags.causal_only and not positions.causal:
        raise UnsupportedError(f"{kind} is defined for causal attention only: pass causal=True")
