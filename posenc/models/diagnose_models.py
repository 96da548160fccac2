"""`diagnose_models`: where two models part, and why."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc.analysis.diagnose import Diagnosis, diagnose
from posenc.encoding import Encoding
from posenc.errors import PosencError, ShapeError
from posenc.models.read import read
from posenc.models.spy import Seen, layers_of, spy
from posenc.positions.from_batch import positions_from


@dataclass(frozen=True)
class ModelDiagnosis:
    """Where two models part; str() says it in sentences.

    place      "layer 3, queries and keys" or the like; None where they agree to the end
    error      the largest difference there, relative to the trusted model's largest number
    allowed    what is left to rounding
    cause      in a few words; "none" where they agree, "unknown" where nothing explains it
    diagnosis  of the tensors of that place, where `diagnose` reads such
    weights    names of parameters of that place that differ
    """

    place: str | None
    error: float
    allowed: float
    cause: str
    diagnosis: Diagnosis | None = None
    weights: tuple[str, ...] = ()

    @property
    def agree(self) -> bool:
        return self.place is None

    def __str__(self) -> str:
        if self.agree:
            return f"They agree to the end: {self.error:.2g} apart, {self.allowed:.2g} is rounding."
        apart = f"{self.error:.2g} apart, {self.allowed:.2g} is rounding"
        says = [f"They part at {self.place}: {apart}."]
        if self.weights:
            says.append(f"Weights differ: {', '.join(self.weights)}.")
        if self.diagnosis is not None:
            says.append(str(self.diagnosis))
        return " ".join(says)


class _Place(NamedTuple):
    """layer is the one whose parameters may tell, and outside, whether those of none may."""

    name: str
    layer: str | None
    trusted: tuple[Tensor, ...]
    other: tuple[Tensor, ...]
    outside: bool = False


def diagnose_models(
    trusted: Any, other: Any, ids: Tensor, *, tolerance: float | None = None, **inputs: Any
) -> ModelDiagnosis:
    """Run two models of one architecture on the same tokens; name the first place that differs.

    trusted, other  models of transformers, with whatever attention and weights each has
    ids             tokens (b, t)
    tolerance       largest difference, relative to the largest number at a place, that is taken
                    for rounding; None: 50 times the resolution of the coarser dtype, 0.05 at most
    inputs          what else both are given: attention_mask, position_ids, images, and of a model
                    that reads one text and writes another decoder_input_ids

    Places are, layer by layer, what the layer is given, its queries and keys as they meet, its
    values, and what attention returns; then the result. Of an encoder and a decoder each has its
    own. Of queries, keys and outputs `diagnose` names the cause. Raises ShapeError for models of
    different sizes.

    Example: `print(diagnose_models(model, converted, torch.randint(1000, (1, 64))))`.
    """
    with torch.no_grad():
        seen = [spy(model, input_ids=ids, **inputs) for model in (trusted, other)]
    if len(seen[0].inputs) != len(seen[1].inputs):
        raise ShapeError(
            f"diagnose_models: {len(seen[0].inputs)} layers and {len(seen[1].inputs)}: models of "
            "one architecture are needed"
        )
    eps = max(torch.finfo(next(iter(x.inputs.values())).dtype).eps for x in seen)
    allowed = min(50 * eps, 0.05) if tolerance is None else tolerance
    worst = 0.0
    if seen[0].ids is not None:
        inputs = {**inputs, "position_ids": seen[0].ids}
    for place in _places(*seen):
        batch = _batch(place, ids, inputs)
        mask = batch.get("attention_mask")
        error = _error(place, None if mask is None or mask.ndim != 2 else mask.bool())
        if error > allowed:
            found = _diagnosis(place, seen[0], _encoding(trusted, place.layer), batch)
            return _why(place, error, allowed, found, _weights(place, trusted, other))
        worst = max(worst, error)
    return ModelDiagnosis(None, worst, allowed, "none")


def _batch(place: _Place, ids: Tensor, inputs: dict[str, Any]) -> dict[str, Any]:
    """The tokens that a place has a row for, and what was told of them."""
    if not place.name.startswith("decoder") and "decoder_input_ids" not in inputs:
        return {"input_ids": ids, **inputs}
    if place.name.startswith("encoder"):
        return {"input_ids": ids, "attention_mask": inputs.get("attention_mask")}
    # Without ids of its own a decoder reads those of the encoder, one place on.
    return {
        "input_ids": inputs.get("decoder_input_ids", ids),
        "attention_mask": inputs.get("decoder_attention_mask"),
    }


def _places(one: Seen, two: Seen) -> Iterator[_Place]:
    last: dict[str, str] = {}
    for name in one.inputs:
        stack = name.partition("layer ")[0]
        if stack == "decoder " and one.encoded is not None and stack not in last:
            a, b = one.encoded, two.encoded
            assert b is not None
            yield _Place("encoder, what it returns", last.get("encoder "), (a,), (b,), True)
        before = f"{last[stack]}, what it returns" if stack in last else f"{stack}embeddings"
        outside = stack not in last
        yield _Place(before, last.get(stack), (one.inputs[name],), (two.inputs[name],), outside)
        last[stack] = name
        a, b = one.attended.get(name), two.attended.get(name)
        if a is None or b is None:
            continue
        yield _Place(f"{name}, queries and keys", name, (a.q, a.k), (b.q, b.k))
        yield _Place(f"{name}, values", name, (a.v,), (b.v,))
        yield _Place(f"{name}, attention", name, (a.out,), (b.out,))
    if one.result is not None and two.result is not None:
        last_layer = next(reversed(one.inputs))
        yield _Place("the result", last_layer, (one.result,), (two.result,), True)


def _error(place: _Place, real: Tensor | None) -> float:
    """The largest difference of real tokens, relative to the largest number."""
    largest = 0.0
    for a, b in zip(place.trusted, place.other, strict=True):
        if a.shape != b.shape:
            raise ShapeError(
                f"diagnose_models: {place.name} of shape {tuple(a.shape)} and {tuple(b.shape)}: "
                "models of one architecture are needed"
            )
        a, b = a.double(), b.double()
        if real is not None:
            # What padding returns is nobody's.
            rows = real[:, None, :, None] if a.ndim == 4 else real[:, :, None]
            a, b = (x.masked_fill(~rows, 0.0) for x in (a, b))
        # What is no number on both sides alike is no difference, and on one of them the largest.
        same = (a == b) | (a.isnan() & b.isnan())
        apart = (a - b).abs().masked_fill(same, 0.0).nan_to_num(nan=torch.inf, posinf=torch.inf)
        most = a.abs().masked_fill(~a.isfinite(), 0.0).max().clamp(min=1e-30)
        largest = max(largest, float(apart.max() / most))
    return largest


def _why(
    place: _Place,
    error: float,
    allowed: float,
    found: Diagnosis | None,
    weights: tuple[str, ...],
) -> ModelDiagnosis:
    cause = found.cause if found is not None else "unknown"
    if cause == "unknown" and weights:
        cause = "weights"
    return ModelDiagnosis(place.name, error, allowed, cause, found, weights)


def _diagnosis(
    place: _Place, seen: Seen, encoding: Encoding | None, batch: dict[str, Any]
) -> Diagnosis | None:
    """Of queries and keys, and of what attention returns; the rest `diagnose` does not read."""
    attended = None if place.layer is None else seen.attended.get(place.layer)
    try:
        positions = positions_from(batch, causal=False)
        if place.name.endswith("queries and keys"):
            return diagnose(place.trusted, place.other, encoding, positions=positions)
        if place.name.endswith("attention") and attended is not None:
            # Queries and keys are turned already.
            return diagnose(
                place.trusted[0],
                place.other[0],
                q=attended.q,
                k=attended.k,
                v=attended.v,
                positions=replace(positions, causal=attended.causal),
                scale=attended.scale,
                kind="output",
            )
    except PosencError:
        return None
    return None


def _encoding(model: Any, name: str | None) -> Encoding | None:
    """The rotation of this layer by its configuration, if posenc has it."""
    if name is None or not name.startswith("layer "):
        return None
    try:
        layer = read(model.config).layers[int(name.removeprefix("layer "))]
        return layer.rotary.build() if layer is not None and layer.rotary is not None else None
    except PosencError:
        return None


def _weights(place: _Place, trusted: Any, other: Any) -> tuple[str, ...]:
    """Names of parameters that differ, of the layer of this place or of what is outside layers."""
    layers = layers_of(trusted)
    inside = {id(x): name for name, layer in layers.items() for x in layer.parameters()}
    theirs = dict(other.named_parameters())
    return tuple(
        name
        for name, mine in trusted.named_parameters()
        if (inside[id(mine)] == place.layer if id(mine) in inside else place.outside)
        and name in theirs
        and not torch.equal(mine, theirs[name])
    )
