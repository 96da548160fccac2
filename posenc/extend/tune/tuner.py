"""Trained weights of methods: made once, kept in the folder of the results, put into the model."""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import safetensors
import torch
from jaxtyping import Int
from torch import Tensor, nn

from posenc.extend.subject import Subject
from posenc.extend.tune import lora
from posenc.extend.tune.settings import Tuning
from posenc.extend.tune.train import Course, train
from posenc.extend.tune.weights import replaced, trainable
from posenc.lab.checkpoint import save_tensors
from posenc.words import Saying

PROTOCOL = 2
"""Raised whenever the same choices would no longer train the same weights."""


@dataclass(frozen=True, eq=False)
class Tuner:
    """A model, its windows of text, and how methods are trained on; files lie in `folder`.

    tuning has no default left to fill in, and target is the farthest length.
    """

    subject: Subject
    windows: Int[Tensor, "n t"]
    tuning: Tuning
    target: int
    seed: int
    folder: Path
    # Beside which LoRA stands; found before anything is attached.
    projections: tuple[str, ...]

    def key(self, method: str) -> str:
        """The first 16 hex digits of the sha256 of all that the trained weights depend on."""
        depends = {
            "protocol": PROTOCOL,
            "model": self.subject.identity,
            "layers": repr(self.subject.layers(method, self.target, self.windows.shape[1])),
            "text": hashlib.sha256(self.windows.numpy().tobytes()).hexdigest(),
            "target": self.target,
            "seed": self.seed,
            **asdict(self.tuning),
        }
        return hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:16]

    def path(self, method: str) -> Path:
        """The safetensors file of all weights, or that in the folder of an adapter of peft."""
        name = f"tuned-{method}-{self.key(method)}"
        if self.tuning.rank is None:
            return self.folder / f"{name}.safetensors"
        return self.folder / name / lora.FILE

    def course(self, method: str) -> Course | None:
        """How the training that is kept went; None where none is kept that can be read."""
        try:
            with safetensors.safe_open(self.path(method), framework="pt") as file:
                return Course(**json.loads(file.metadata()["course"]))
        except (safetensors.SafetensorError, OSError, KeyError, TypeError, ValueError):
            return None

    def train(self, method: str, tell: Callable[[Saying], None]) -> None:
        """Train the method and keep what came of it; what is kept already is not trained again.

        Every method sees the same windows at the same positions.
        """
        if self.course(method) is not None:
            return
        self.subject.attach(method, self.target, self.windows.shape[1])
        model = self.subject.model
        # Windows and positions are drawn apart from LoRA's matrices, whose number depends on rank.
        drawn, begun = (torch.Generator().manual_seed(self.seed) for _ in range(2))
        with self._opened(model, begun) as parameters:
            course = train(
                model,
                list(parameters.values()),
                self.windows,
                self.target,
                self.tuning,
                drawn,
                lambda values: tell(Saying("step", {"method": method} | values)),
            )
            tensors = {name: x.detach() for name, x in parameters.items()}
            path = self.path(method)
            if self.tuning.rank is not None:
                config = lora.config(self.projections, self.tuning.rank)
                config.save_pretrained(path.parent)
            # Last, for with its course the training counts as done.
            save_tensors(path, tensors, {"course": json.dumps(asdict(course))})

    @contextlib.contextmanager
    def put(self, method: str) -> Iterator[None]:
        """The method's trained weights in the model, until the block ends."""
        tensors = safetensors.torch.load_file(self.path(method))
        model = self.subject.model
        if self.tuning.rank is not None:
            tensors = lora.merged(model, self.projections, self.tuning.rank, tensors)
        with replaced(model, tensors):
            yield

    def _opened(
        self, model: nn.Module, generator: torch.Generator
    ) -> contextlib.AbstractContextManager[dict[str, nn.Parameter]]:
        """What is trained, by name."""
        if self.tuning.rank is None:
            return trainable(model)
        return lora.adapters(model, self.projections, self.tuning.rank, generator)
