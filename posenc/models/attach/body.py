"""Where a transformers model has its attention, its rotary modules and its table of positions."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from dis import get_instructions
from inspect import signature, unwrap
from typing import Any

from torch import nn

from posenc.errors import UnsupportedError
from posenc.models.read import read
from posenc.models.spec import LayerSpec, ModelSpec
from posenc.terms import Layout


@dataclass(frozen=True, eq=False)
class Place:
    """A module, and the name by which its owner has it."""

    owner: nn.Module
    name: str

    @property
    def module(self) -> nn.Module:
        return getattr(self.owner, self.name)


@dataclass(frozen=True, eq=False)
class Body:
    """The parts of a model that posenc enters; layers, attentions and kinds go together.

    stacks are an encoder and a decoder, of which `generate` calls each by itself.
    """

    model: Any
    spec: ModelSpec
    layers: tuple[LayerSpec, ...]
    attentions: tuple[nn.Module, ...]
    kinds: tuple[str | None, ...]
    rotary: Place | None
    table: Place | None
    stacks: tuple[nn.Module, ...] = ()

    @property
    def called(self) -> tuple[nn.Module, ...]:
        """Those that are called with position_ids and caches, each before its own layers."""
        return self.stacks or (self.backbone,)

    @property
    def backbone(self) -> nn.Module:
        """What is called with position_ids: the owner of rotary module or table, or the base."""
        for place in (self.rotary, self.table):
            if place is not None and hasattr(place.owner, "config"):
                return place.owner
        return self.model.base_model

    @property
    def layout(self) -> Layout | None:
        """How the weights pair dimensions; None where nothing turns."""
        rotary = next((x.rotary for x in self.layers if x.rotary), None)
        return rotary.settings.get("layout", "half") if rotary else None

    @property
    def turns_itself(self) -> str:
        """Why queries and keys cannot be turned behind the model's code; empty where they can."""
        code = sys.modules[type(self.attentions[0]).__module__]
        if self.layout == "interleaved" and hasattr(code, "apply_rotary_pos_emb_interleave"):
            # DeepSeek-V3's.
            return "takes pairs of neighbours apart before it turns them"
        if _weighs_turned(self.attentions[0], self.layers[0].heads, self.layers[0].head_dim):
            return "has a weight for each dimension of a head behind their rotation"
        return ""

    def weights_of_table(self) -> list[str]:
        """How the names of the weights of the table of positions end in files."""
        if self.table is None:
            return []
        return [f"{self.table.name}.{weight}" for weight in self.table.module.state_dict()]

    @classmethod
    def of(cls, model: Any, spec: ModelSpec) -> "Body":
        """The parts of this model. Raises UnsupportedError where there is no way in."""
        config: Any = model.config
        if not getattr(model, "_supports_attention_backend", False):
            raise UnsupportedError(
                f"attach: the code of {type(model).__name__} does not tell that all its attention "
                "goes by transformers' AttentionInterface (_supports_attention_backend), which "
                "attach goes by"
            )
        attentions = {number: x for x in model.modules() if (number := _number(x)) is not None}
        layers = {i: layer for i, layer in enumerate(spec.layers) if layer is not None}
        if sorted(attentions) != sorted(layers):
            found = f"tells of layers {sorted(attentions)}" if attentions else "tells of no layer"
            raise UnsupportedError(
                f"attach: the attention of {type(model).__name__} {found} (layer_idx), and its "
                f"configuration of {sorted(layers)}"
            )
        if any(hasattr(x, "indexer") for x in attentions.values()):
            raise UnsupportedError(
                f"attach: {type(model).__name__} lets an indexer choose the keys that each query "
                "sees, which its code writes into a mask of pairs; posenc hands it none"
            )
        rotary = _only(model, "rotary modules", lambda _, x: _is_rotary(x))
        table = _only(model, "tables of positions", lambda name, _: name in _TABLES)
        by_type = rotary is not None and "layer_type" in signature(rotary.module.forward).parameters
        types = config.get_text_config().layer_types if by_type else None
        return cls(
            model,
            spec,
            tuple(layers.values()),
            tuple(attentions[number] for number in layers),
            tuple(types[number] if types else None for number in layers),
            rotary,
            table,
        )


def spec_of(model: Any) -> ModelSpec:
    """What the configuration of this model says of positions; UnsupportedError for no model."""
    config: Any = getattr(model, "config", None)
    if not isinstance(model, nn.Module) or not hasattr(config, "to_dict"):
        raise UnsupportedError(
            f"attach({type(model).__name__}): a model of transformers, with its config, is needed"
        )
    return read(config)


_TABLES = frozenset({"position_embeddings", "wpe", "embed_positions"})


def _number(module: nn.Module) -> int | None:
    """The layer that this is the attention of; None for what attends elsewhere, or not at all."""
    name, number = type(module).__name__, getattr(module, "layer_idx", None)
    crosses = "Cross" in name or getattr(module, "is_cross_attention", False)
    if crosses or not name.endswith("Attention") or not hasattr(module, "is_causal"):
        return None
    return number if isinstance(number, int) else None


def _weighs_turned(attention: nn.Module, heads: int, head_dim: int) -> bool:
    """Whether the code weighs what it has turned by dimension: a norm (HunYuan), a scale (Dory)."""
    names = [str(x.argval) for x in get_instructions(unwrap(type(attention).forward))]
    turns = [i for i, name in enumerate(names) if name.startswith("apply_") and "rotary" in name]
    behind = names[turns[-1] :] if turns else []
    # As many as all heads have together: a logit for each head is none of these.
    scales = {name: len(x) for name, x in attention.named_parameters(recurse=False) if x.ndim == 1}
    if any(name in behind and count == heads * head_dim for name, count in scales.items()):
        return True
    return any(
        name in behind and any(x.shape == (head_dim,) for x in module.parameters())
        for name, module in attention.named_children()
    )


def _is_rotary(module: nn.Module) -> bool:
    name = type(module).__name__
    return name.endswith("RotaryEmbedding") and "Vision" not in name


def _only(model: nn.Module, what: str, wanted: Callable[[str, nn.Module], bool]) -> Place | None:
    """The one place where such a module is, or None; refused where there are several."""
    places = [
        Place(owner, name)
        for owner in model.modules()
        for name, module in owner.named_children()
        if wanted(name, module)
    ]
    if len(places) > 1:
        owners = ", ".join(f"{type(x.owner).__name__}.{x.name}" for x in places)
        raise UnsupportedError(f"attach: {type(model).__name__} has several {what}: {owners}")
    return places[0] if places else None
