"""What a model does with positions, as plain data: no torch, no module, no weight."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from posenc.errors import UnknownNameError, UnsupportedError, shown

if TYPE_CHECKING:
    from posenc.encoding import Encoding

# As in posenc.terms, which needs torch.
Layout = Literal["half", "interleaved"]
_ROTATIONS = frozenset({"rotary", "mrope", "axial", "dual_chunk"})


@dataclass(frozen=True)
class ScalingSpec:
    """A rotary scaling by its name in posenc, such as "YaRN", and its settings."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class EncodingSpec:
    """An encoding by its name in the catalogue, and its settings.

    `build` makes it: `EncodingSpec("rotary", {"dim": 64}).build()` is `Rotary(64)`.
    """

    name: str
    settings: Mapping[str, Any]

    def build(self) -> "Encoding":
        """The encoding itself.

        Raises UnsupportedError for a setting that posenc has no encoding for, and says which.
        """
        import inspect

        from posenc import api
        from posenc.catalogue import find

        try:
            kind = find(self.name)
        except UnknownNameError as error:
            raise UnsupportedError(f"{shown(self)} cannot be built: {error}") from None
        known = inspect.signature(kind).parameters
        if beyond := sorted(set(self.settings) - set(known)):
            raise UnsupportedError(
                f"{shown(self)} cannot be built: {kind.__name__} has no setting {', '.join(beyond)}"
            )
        settings = dict(self.settings)
        scaling = settings.get("scaling")
        if isinstance(scaling, ScalingSpec):
            if not hasattr(api, scaling.name):
                raise UnsupportedError(
                    f"{shown(self)} cannot be built: no scaling is {scaling.name}"
                )
            settings["scaling"] = getattr(api, scaling.name)(**scaling.settings)
        return kind(**settings)


@dataclass(frozen=True)
class LayerSpec:
    """The attention of one layer.

    encodings act between queries and keys; none is NoPE. head_dim is that of queries and keys.
    scale multiplies their products. window counts the tokens that a query sees to either side,
    itself included, and chunk the length of the chunks that do not see each other. sink_logits:
    each head has a learned logit that takes part in the softmax. beyond is what the layer does
    with positions besides, and nothing here says. sources says for each value which key it came
    from.
    """

    encodings: tuple[EncodingSpec, ...]
    heads: int
    key_heads: int
    head_dim: int
    value_dim: int
    scale: float
    causal: bool = True
    window: int | None = None
    chunk: int | None = None
    sink_logits: bool = False
    beyond: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def rotary(self) -> EncodingSpec | None:
        """Its rotation, if it has one."""
        return next((x for x in self.encodings if x.name in _ROTATIONS), None)


@dataclass(frozen=True)
class PartSpec:
    """A stack of layers, such as the text's, the vision's, an encoder or a decoder.

    embeddings are added to the input, where the first token is at first_position (2 in OPT and
    RoBERTa). A layer without softmax attention is None. trained_length is how many tokens the
    checkpoint is said to take, original_length how many it took before its positions were
    stretched; None where nothing is said.
    """

    layers: tuple[LayerSpec | None, ...]
    embeddings: tuple[EncodingSpec, ...] = ()
    trained_length: int | None = None
    original_length: int | None = None
    first_position: int = 0
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelSpec:
    """What a model does with positions.

    `parts` by name, the one that writes text first. `unread` are keys that speak of positions
    and that no rule of this model type reads: nothing is guessed of them.
    """

    model_type: str
    parts: Mapping[str, PartSpec]
    unread: tuple[str, ...] = ()
    origin: str = "a dict"

    @property
    def main(self) -> PartSpec:
        """The part that writes text, or the only one."""
        return next(iter(self.parts.values()))

    @property
    def layers(self) -> tuple[LayerSpec | None, ...]:
        """The layers of the main part."""
        return self.main.layers

    def attention(self) -> Iterator[tuple[str, int, LayerSpec]]:
        """Every layer with attention: the part's name, the number of the layer, the layer."""
        for name, part in self.parts.items():
            for number, layer in enumerate(part.layers):
                if layer is not None:
                    yield name, number, layer
