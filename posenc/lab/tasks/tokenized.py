"""What tasks share that read a text in tokens of a tokenizer."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float64, Int, Int64, UInt8
from torch import Tensor, nn

from posenc.errors import SettingError, UnsupportedError, installing
from posenc.lab.config import RunConfig
from posenc.lab.evaluate import losses
from posenc.lab.pretrained import Pretrained
from posenc.lab.tasks.task import Batch, Task
from posenc.lab.tasks.text import EMPTY


@dataclass(frozen=True, eq=False)
class Tokenized(Task):
    """Text in tokens; a length counts them.

    tokenizer   a folder, a GGUF file or a tokenizer.json; empty: that of the run's model
    source      where that model is loaded from
    """

    tokenizer: str = ""
    source: Path | None = field(default=None, repr=False)
    train: UInt8[Tensor, " n"] = field(default=EMPTY, repr=False)
    test: UInt8[Tensor, " n"] = field(default=EMPTY, repr=False)

    @cached_property
    def words(self) -> Any:
        """The tokenizer. Raises SettingError for none, UnsupportedError without transformers."""
        given = self.tokenizer or self.source
        if not given:
            raise SettingError(
                f"task {self.spec} reads tokens: give a tokenizer, as in "
                f"{self.name}(tokenizer='tokenizer.json'), or a run a model of transformers"
            )
        try:
            from transformers import AutoTokenizer, PreTrainedTokenizerFast
        except ImportError as error:
            raise UnsupportedError(
                f"tokenizers are read by transformers, which is not installed: "
                f"{installing('models')}"
            ) from error
        path = Path(given)
        try:
            if path.is_dir():
                return AutoTokenizer.from_pretrained(path, local_files_only=True)
            if path.suffix == ".gguf":
                return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
            return PreTrainedTokenizerFast(tokenizer_file=str(path))
        except (OSError, ValueError, TypeError) as error:
            raise SettingError(f"task {self.spec}: no tokenizer in {path}: {error}") from None
        except Exception as error:
            # The library in Rust raises plain exceptions.
            raise SettingError(f"task {self.spec}: {path} is no tokenizer: {error}") from None

    @property
    def vocabulary(self) -> int:
        return len(self.words)

    @cached_property
    def read(self) -> Int64[Tensor, " n"]:
        """All text to train on."""
        text = bytes(self.train.numpy()).decode("utf-8", "replace")
        return torch.tensor(self.words(text, add_special_tokens=False, verbose=False)["input_ids"])

    def batch(self, config: RunConfig, generator: torch.Generator) -> Batch:
        """Stretches of the train length from anywhere in the text, and the tokens after each."""
        starts = torch.randint(
            len(self.read) - config.train_length, (config.batch,), generator=generator
        )
        chosen = self.read[starts[:, None] + torch.arange(config.train_length + 1)]
        tokens = chosen[:, :-1]
        return Batch(tokens, chosen[:, 1:], torch.ones_like(tokens, dtype=torch.bool))

    def material(self, config: RunConfig, spans: int, longest: int) -> Any:
        """What a seed is tested on: the test text from somewhere on, around to where it began."""
        from posenc.extend.material import Material

        text = bytes(self.test.numpy()).decode("utf-8", "replace")
        digest = hashlib.sha256(f"{self.name}/{config.seed}".encode()).digest()
        start = int.from_bytes(digest[:8]) % max(len(text), 1)
        return Material.of(self.words, text[start:] + text[:start], spans, longest)


def scored(
    model: nn.Module,
    config: RunConfig,
    ids: Int[Tensor, "t"],
    first: int,
    places: Int[Tensor, "t"] | None = None,
) -> tuple[Float64[Tensor, "n"], Bool[Tensor, "n"]]:
    """The losses of ids[first:], and where greedy decoding would say them.

    `places` are positions of the tokens, which our own models count by themselves.
    """
    if isinstance(model, Pretrained) and places is None:
        from posenc.extend.forward import score

        found = score(model.model, ids, first)
        return found.loss.double(), found.rank == 0
    device = next(model.parameters()).device
    ids = ids.to(device)
    if isinstance(model, Pretrained) and places is not None:
        # In one piece, for in a cache tokens are counted; told that all is one text.
        logits = model.model(
            input_ids=ids[None, :-1],
            position_ids=places[None, :-1].to(device),
            attention_mask=torch.ones_like(ids[None, :-1]),
            use_cache=False,
            logits_to_keep=len(ids) - first,
        ).logits[0]
        found = F.cross_entropy(logits.float(), ids[first:], reduction="none").double()
        return found.cpu(), (logits.argmax(-1) == ids[first:]).cpu()
    found = losses(model, ids[None, :-1], ids[None, 1:], config.heads)[0, first - 1 :]
    said = model(ids[None, :-1])[0, first - 1 :].argmax(-1) == ids[first:]
    return found.cpu(), said.cpu()
