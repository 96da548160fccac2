"""The model that is extended: loaded, read, and named by the hash of its files."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc.encoding import Encoding
from posenc.encodings.scaling import LongRoPE
from posenc.errors import ConfigError, UnsupportedError
from posenc.extend.methods import Reach, encodings, settled
from posenc.models.attach import attach
from posenc.models.loading import load_model
from posenc.models.read import read, read_with_values
from posenc.models.spec import ModelSpec

# What a folder's outputs depend on.
FILES = ("config.json", "tokenizer*", "*.safetensors", "*.bin", "*.gguf")


@dataclass(frozen=True, eq=False)
class Subject:
    """A model with its tokenizer, what it does with positions, and its config.json's values.

    found is what a search found for it.
    """

    model: Any
    tokenizer: Any
    spec: ModelSpec
    trained: int
    identity: str
    values: dict[str, Any]
    found: LongRoPE | None = None

    def layers(self, method: str, target: int, length: int) -> list[list[Encoding]]:
        """What `attach` puts into each layer for inputs of this length."""
        layers = encodings(self.spec, method, Reach(self.trained, target, self.found))
        known: dict[int, Encoding] = {}
        return [
            [known.setdefault(id(part), settled(part, length)) for part in parts]
            for parts in layers
        ]

    def attach(self, method: str, target: int, length: int) -> None:
        """Put a method under the model, in place of the one before."""
        layers = self.layers(method, target, length)
        attach(self.model, lambda number: layers[number])


def check_rotary(source: Path) -> int:
    """The trained length of the rotary model in these files, of which no weight is read.

    Raises UnsupportedError for a model that does not turn by position, that is no decoder, or whose
    rotation is scaled already, and ConfigError where nothing says how long its inputs were.
    """
    part = read(source).main
    rotations = [x.rotary for x in part.layers if x is not None and x.rotary is not None]
    if not rotations:
        raise UnsupportedError(
            f"extend {source}: no layer of it turns by position (no rotary), and all methods "
            "change rotations; `posenc doctor` says what it does instead"
        )
    if not all(x.causal for x in part.layers if x is not None):
        raise UnsupportedError(
            f"extend {source}: its tokens see those behind them, and losses of next tokens are "
            "measured; a decoder is needed"
        )
    for rotary in rotations:
        if rotary.name != "rotary":
            raise UnsupportedError(
                f"extend {source}: its rotation is {rotary.name}, of several axes, and methods are "
                "for texts of one"
            )
        if "scaling" in rotary.settings:
            raise UnsupportedError(
                f"extend {source}: it is extended already, by {rotary.settings['scaling'].name}; "
                "methods start from a rotation without a scaling"
            )
    if part.trained_length is None:
        raise ConfigError(
            f"extend {source}: nothing says how many tokens it was trained on: add "
            "max_position_embeddings to its config.json"
        )
    return part.trained_length


def load_subject(source: Path) -> Subject:
    """The model in a folder or a GGUF file. Raises as `check_rotary` and `load_model` do."""
    trained = check_rotary(source)
    loaded = load_model(source)
    if loaded.tokenizer is None:
        raise UnsupportedError(
            f"extend {source}: it has no tokenizer beside it, and text has to become tokens"
        )
    for parameter in loaded.model.parameters():
        parameter.requires_grad_(False)
    spec = read(loaded.model.config.to_dict())
    _, values = read_with_values(source)
    if values is None:
        # Of a GGUF file, what transformers makes of it.
        values = dict(loaded.model.config.to_dict())
        values.pop("quantization_config", None)
    return Subject(loaded.model, loaded.tokenizer, spec, trained, identity(source), values)


def identity(source: Path) -> str:
    """The sha256 of the files that a model is made of, by name and content."""
    files = _files(source) if source.is_dir() else [source]
    whole = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            whole.update(f"{path.name}:".encode())
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def _files(folder: Path) -> list[Path]:
    return sorted({path for pattern in FILES for path in folder.glob(pattern)})
