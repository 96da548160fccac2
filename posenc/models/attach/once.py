"""What the code of a layer does by itself, whatever encoding it is given, and does once."""

from posenc.encoding import Encoding
from posenc.encodings.sink_logits import SinkLogits
from posenc.encodings.temperature import Temperature
from posenc.errors import UnsupportedError
from posenc.models.spec import LayerSpec


def own_temperature(layer: LayerSpec) -> Encoding | None:
    """The growth by which the code of this layer multiplies its queries (Llama 4, Ministral 3)."""
    return next((x.build() for x in layer.encodings if x.name == Temperature.name), None)


def left_to_model(
    parts: tuple[Encoding, ...], layer: LayerSpec, model_type: str
) -> tuple[Encoding, ...]:
    """These encodings without its own temperature and sinks, which `posenc.layers` tells too.

    Raises UnsupportedError for another temperature, which would multiply the model's own.
    """
    own, rest = own_temperature(layer), []
    for part in parts:
        # What the model has learned is in its weights, and not in an encoding that was just made.
        if layer.sink_logits and isinstance(part, SinkLogits) and part.learned:
            continue
        if own is not None and isinstance(part, Temperature):
            if part.settings() == own.settings():
                continue
            raise UnsupportedError(
                f"attach: {part!r} in a layer whose code multiplies queries by {own!r} itself "
                f"({model_type}), so that scores would grow twice: leave it out, or load the "
                "model with a configuration that has no temperature"
            )
        rest.append(part)
    return tuple(rest)
