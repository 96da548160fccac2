"""`layers`: the encodings of each layer of a model whose layers differ."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, overload

from posenc.errors import SettingError, UnknownNameError, UnsupportedError
from posenc.models.presets import PRESETS
from posenc.models.read import Configuration, read
from posenc.models.spec import EncodingSpec, LayerSpec, ModelSpec

if TYPE_CHECKING:
    from posenc.caches.cache import Cache, Policy
    from posenc.encoding import Encoding


class Layers(Sequence[list["Encoding"]]):
    """The encodings of each layer: masks and rotations too, and an empty list for none.

    Layers share encodings that are alike, unless they learn. Called with the number of a layer it
    gives those of that layer, as `Transformer(encoding=...)` and `attach` ask.
    """

    def __init__(self, encodings: Sequence[list["Encoding"]]) -> None:
        self.encodings = list(encodings)

    def __call__(self, layer: int) -> list["Encoding"]:
        return self.encodings[layer]

    def __len__(self) -> int:
        return len(self.encodings)

    @overload
    def __getitem__(self, index: int) -> list["Encoding"]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list["Encoding"]]: ...
    def __getitem__(self, index: int | slice) -> list["Encoding"] | list[list["Encoding"]]:
        return self.encodings[index]

    def __repr__(self) -> str:
        kinds: dict[str, list[int]] = {}
        for number, parts in enumerate(self.encodings):
            kinds.setdefault(repr(parts), []).append(number)
        lines = [f"  {numbers}: {parts}" for parts, numbers in kinds.items()]
        return "\n".join([f"Layers of {len(self)}:", *lines])

    def caches(self, policy: "Policy" = "rotated", length: int | None = None) -> list["Cache"]:
        """A cache for each layer that holds what its masks show to later tokens.

        Rolling where a window or a chunk hides the rest for good, growing elsewhere; policy and
        length as in Cache.
        """
        from posenc.caches.fitting import fitting_cache

        return [fitting_cache(parts, policy, length) for parts in self.encodings]


def layers(
    source: str | PathLike[str] | Mapping[str, Any] | Configuration | ModelSpec,
    layers: int | None = None,
    *,
    heads: int = 1,
    head_dim: int = 64,
    **settings: Any,
) -> Layers:
    """The encodings of each layer of a model, of a preset by its name or of all that `read` takes.

    Presets are "llama4" (chunks that turn, every fourth layer sees all without positions, its
    scores by temperature), "smollm3" (every fourth layer without positions), "cohere2" (the same
    with windows before: RNoPE-SWA), "gemma3" and "gemma4" (local and global bases), "modernbert"
    (the same in an encoder) and "gpt_oss" (windows, YaRN, logits of sinks). They are what `read`
    makes of configurations: layers, heads and head_dim say the size, and settings are more of their
    keys, sliding_window=512 say.

    What a layer multiplies products of queries and keys by is not told here: posenc's is
    head_dim**-0.5. Raises SettingError for a preset without a number of layers, UnsupportedError
    for layers that no encoding tells all of, and what `read` raises.

    Example: `Transformer(100, 64, 8, 4, encoding=posenc.layers("smollm3", 8, head_dim=16))`.
    """
    if isinstance(source, str) and source in PRESETS:
        if layers is None:
            raise SettingError(f"layers({source!r}): say of how many, layers({source!r}, 12)")
        sizes = {
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "hidden_size": heads * head_dim,
        }
        if source != "modernbert":
            sizes["head_dim"] = head_dim
        if source == "gemma4":
            sizes["global_head_dim"] = head_dim
        return _built(read(PRESETS[source] | sizes | settings))
    if layers is not None or settings:
        given = {"layers": layers, **settings}
        if isinstance(source, str) and source.isidentifier():
            raise UnknownNameError("preset", source, PRESETS)
        raise SettingError(
            f"layers({source!r}, {given}): a configuration says its sizes and settings itself; "
            f"only a preset is given them, one of {', '.join(PRESETS)}"
        )
    return _built(source if isinstance(source, ModelSpec) else read(source))


def _built(spec: ModelSpec) -> Layers:
    if spec.main.embeddings:
        raise UnsupportedError(
            f"layers of {spec.model_type}: it adds {spec.main.embeddings[0].name} to embeddings, "
            "which is no layer's: take read(...).main.embeddings"
        )
    known: dict[str, Encoding] = {}
    found = []
    for number, layer in enumerate(spec.layers):
        if layer is None or layer.beyond:
            said = layer.beyond[0] if layer is not None else "it has no softmax attention"
            raise UnsupportedError(f"layer {number} of {spec.model_type}: {said}")
        parts = []
        for one in _specs(layer):
            part = known[repr(one)] if repr(one) in known else one.build()
            # What is learned, each layer learns for itself.
            if next(part.parameters(), None) is None:
                known[repr(one)] = part
            parts.append(part)
        found.append(parts)
    return Layers(found)


def _specs(layer: LayerSpec) -> list[EncodingSpec]:
    """All that acts in a layer, masks too."""
    specs = list(layer.encodings)
    if layer.window is not None:
        specs.append(EncodingSpec("window", {"width": layer.window}))
    if layer.chunk is not None:
        specs.append(EncodingSpec("chunked", {"width": layer.chunk}))
    if layer.sink_logits:
        specs.append(EncodingSpec("sink_logits", {"heads": layer.heads}))
    return specs
