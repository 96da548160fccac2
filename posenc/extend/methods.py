"""Ways to make a rotary model read beyond its trained length: a name, and what it builds.

    factor = target / trained

No method trains anything: each is another encoding under the same weights (`tune` trains those).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from posenc.encoding import Encoding
from posenc.encodings import LMInfinite, ReRoPE, Rotary, SelfExtend, Sinks
from posenc.encodings.scaling import NTK, DynamicNTK, Linear, Llama3, LongRoPE, Scaling, YaRN
from posenc.errors import UnsupportedError
from posenc.extend.options import SEARCHED
from posenc.models.spec import EncodingSpec, LayerSpec, ModelSpec

# The first tokens that stay visible: StreamingLLM's four.
SINKS = 4


@dataclass(frozen=True)
class Reach:
    """From how many tokens to how many, and what a search found for that."""

    trained: int
    target: int
    found: LongRoPE | None = None

    @property
    def factor(self) -> float:
        return self.target / self.trained


Method = Callable[[EncodingSpec, Reach], Encoding]


def _scaled(scaling: Callable[[Reach], Scaling | None]) -> Method:
    """The model's own rotation with other frequencies."""
    return lambda rotary, reach: Rotary(**rotary.settings, scaling=scaling(reach))


def _zones(build: Callable[[dict[str, Any], Reach], Encoding]) -> Method:
    """A rotation near and another far, whose classes turn whole heads only."""

    def method(rotary: EncodingSpec, reach: Reach) -> Encoding:
        settings = dict(rotary.settings)
        turned = settings.pop("rotary_dim", None)
        if turned not in (None, settings["dim"]):
            raise UnsupportedError(
                f"the model turns {turned} of {settings['dim']} dimensions of a head, and posenc "
                "has zones for whole heads only"
            )
        return build(settings, reach)

    return method


def _self_extend(settings: dict[str, Any], reach: Reach) -> Encoding:
    rule = SelfExtend.for_model(
        head_dim=settings["dim"], train_length=reach.trained, max_length=reach.target
    )
    assert isinstance(rule, SelfExtend)
    return SelfExtend(**settings, window=rule.window, group=rule.group)


def _sinks(rotary: EncodingSpec, reach: Reach) -> Encoding:
    return Sinks(SINKS, window=max(1, reach.trained - SINKS), rotary=Rotary(**rotary.settings))


def _found(reach: Reach) -> LongRoPE:
    if reach.found is None:
        raise UnsupportedError(f"{SEARCHED} is made of factors that were searched: give --search")
    return reach.found


# In the order of options.METHODS, and what a search finds.
TABLE: Mapping[str, Method] = {
    "none": _scaled(lambda reach: None),
    "linear": _scaled(lambda reach: Linear(reach.factor)),
    "ntk": _scaled(lambda reach: NTK(reach.factor)),
    "dynamic": _scaled(lambda reach: DynamicNTK(reach.factor, reach.trained)),
    "yarn": _scaled(lambda reach: YaRN(reach.factor, reach.trained)),
    # The ramp of every Llama since 3.1.
    "llama3": _scaled(lambda reach: Llama3(reach.factor, 1.0, 4.0, reach.trained)),
    "self_extend": _zones(_self_extend),
    "rerope": _zones(lambda settings, reach: ReRoPE(**settings, window=max(1, reach.trained // 2))),
    "lm_infinite": _zones(lambda settings, reach: LMInfinite(**settings, window=reach.trained)),
    "sinks": _sinks,
    SEARCHED: _scaled(_found),
}


def encodings(spec: ModelSpec, name: str, reach: Reach) -> list[list[Encoding]]:
    """What a method puts into each layer with attention, for `attach`.

    A layer that does not turn stays without position, and one whose window or chunk is no longer
    than the trained length keeps its rotation, for it never sees farther. Raises UnsupportedError
    where the method has no meaning for the model's rotation.
    """
    made: dict[str, Encoding] = {}
    layers = []
    for layer in spec.layers:
        if layer is None:
            continue
        rotary = layer.rotary
        if rotary is None:
            layers.append([])
            continue
        method = TABLE["none" if _sees_little(layer, reach) else name]
        key = repr((rotary, _sees_little(layer, reach)))
        if key not in made:
            made[key] = method(rotary, reach)
        layers.append([made[key]])
    return layers


def settled(encoding: Encoding, length: int) -> Encoding:
    """The same for inputs of one length: a scaling that asks for the length is told it.

    transformers turns a whole input by the length of all of it; read in parts, with a cache, the
    first part would not know how long the input is going to be.
    """
    scaling = encoding.scaling if isinstance(encoding, Rotary) else None
    if isinstance(encoding, Rotary) and isinstance(scaling, LongRoPE):
        known = scaling.long if length > scaling.original_length else scaling.short
        fixed = replace(scaling, short=known, long=known)
        return Rotary(**encoding.settings() | {"scaling": fixed})
    if not isinstance(encoding, Rotary) or not isinstance(scaling, DynamicNTK):
        return encoding
    growth = max(length, scaling.original_length) / scaling.original_length
    factor = scaling.factor * growth - (scaling.factor - 1)
    settings = encoding.settings() | {"scaling": NTK(factor) if factor > 1 else None}
    return Rotary(**settings)


def far_rotation(spec: ModelSpec, trained: int) -> EncodingSpec:
    """How all layers turn that see beyond the trained length.

    Raises UnsupportedError where they turn in several ways, or none does.
    """
    reach = Reach(trained, trained)
    layers = [x for x in spec.layers if x is not None and not _sees_little(x, reach)]
    ways = {repr(x.rotary): x.rotary for x in layers if x.rotary is not None}
    if len(ways) != 1:
        raise UnsupportedError(
            f"extend --search: {len(ways)} rotations see farther than {trained} tokens, and one "
            "list of factors is searched"
        )
    return next(iter(ways.values()))


def _sees_little(layer: LayerSpec, reach: Reach) -> bool:
    reaches = [x for x in (layer.window, layer.chunk) if x is not None]
    return bool(reaches) and min(reaches) <= reach.trained
