"""What a comparison and one run of the lab are: plain values, and the id that a run's hash to."""

import dataclasses
import hashlib
import json
import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from posenc.errors import SettingError
from posenc.words import Language

PROTOCOL = 1
"""Raised whenever the same configuration would no longer give the same results."""

PRECISIONS = ("float32", "bfloat16")
# Of our own models; one of transformers has its own, whatever a configuration says.
OWN_SIZES = ("dim", "depth", "heads")
# Tasks that read a text.
OF_TEXT = ("text", "masked_text", "tokens", "passkey")
# Fields without which earlier runs were written, whose ids stay what they were.
LATER = frozenset({
    "task", "data_seed", "positions", "solved", "precision", "base", "scored", "compile", "model",
    "weights",
})  # fmt: skip


@dataclass(frozen=True)
class RunConfig:
    """One model, trained once: everything that its results depend on.

    Lengths, positions and batches count bytes of text, or tokens where a task reads tokens. A
    `model` of transformers has its own dim, depth and heads. Exactly one of `steps` and `minutes`
    is the budget. Raises SettingError when the values contradict each other.
    """

    encoding: str
    settings: str = ""  # the encoding's repr, so that other settings are another run
    seed: int = 0
    corpus: str = ""  # sha256 of the text and of its split
    train_length: int = 64
    test_lengths: tuple[int, ...] = (64, 128, 256, 512)
    dim: int = 32
    depth: int = 2
    heads: int = 4
    batch: int = 16
    steps: int | None = 1500
    minutes: float | None = None
    learning_rate: float = 0.0125
    warmup: float = 0.1  # the share of the budget in which the learning rate rises
    weight_decay: float = 0.1
    spans: int = 128  # stretches of test text, each as long as the longest test length
    version: int = PROTOCOL
    # What came later stands in a manifest only where it is not as it was before.
    task: str = "text"
    data_seed: int | None = None  # of what is read; None: the seed, which is also of the weights
    positions: str = ""  # how they are drawn; empty: counted
    solved: float | None = None  # the share of right answers at which training comes to its end
    precision: str = "float32"
    base: str = ""  # the name of the run whose weights it begins with
    scored: int | None = None  # bytes at the end of a span; None: a quarter of the train length
    compile: bool = False  # whether torch.compile makes the steps of training quicker
    model: str = ""  # of transformers, a folder or a name of `pretrained`; empty: our own
    weights: str = ""  # sha256 of that model's files

    def __post_init__(self) -> None:
        for name in ("train_length", *OWN_SIZES, "batch", "spans", "scored"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"{name} is {value}: it must be at least 1")
        self._check_lengths()
        if self.dim % self.heads:
            raise SettingError(
                f"dim={self.dim} is not divisible by heads={self.heads}: each head needs the same "
                "number of dimensions"
            )
        if (self.steps is None) == (self.minutes is None):
            raise SettingError(
                f"steps={self.steps} and minutes={self.minutes}: give exactly one of them"
            )
        # A run that begins with weights that were trained may leave them as they are.
        least = 0 if self.base or self.model else 1
        if self.steps is not None and self.steps < least:
            raise SettingError(f"steps is {self.steps}: it must be at least {least}")
        if self.minutes is not None and not (math.isfinite(self.minutes) and self.minutes > 0):
            raise SettingError(f"minutes is {self.minutes}: it must be a number above 0")
        if not 0 < self.learning_rate < math.inf:
            raise SettingError(f"the learning rate is {self.learning_rate}: it must be above 0")
        if self.precision not in PRECISIONS:
            raise SettingError(f"precision is {self.precision!r}: it is {' or '.join(PRECISIONS)}")
        if self.solved is not None and not 0 < self.solved <= 1:
            raise SettingError(f"solved is {self.solved}: it is a share, above 0 and up to 1")
        if self.solved is not None and self.steps is None:
            raise SettingError(f"solved={self.solved} ends a budget in steps, not in minutes")

    def _check_lengths(self) -> None:
        of_text = self.of_text
        if of_text and self.train_length < 8:
            raise SettingError(f"the train length is {self.train_length}: it must be at least 8")
        least, why = (2, ", because the first byte has nothing before it") if of_text else (1, "")
        if not self.test_lengths or min(self.test_lengths) < least:
            raise SettingError(
                f"the test lengths are {list(self.test_lengths)}: give at least one, each at least "
                f"{least}{why}"
            )

    @property
    def of_text(self) -> bool:
        """Whether what is learned is a text, which is found elsewhere."""
        return self.task.partition("(")[0].strip() in OF_TEXT

    @property
    def run_id(self) -> str:
        """The first 12 hex digits of the sha256 of the configuration's canonical JSON."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """The run's folder name, safe on every file system."""
        encoding = re.sub(r"[^A-Za-z0-9._-]+", "_", self.encoding)[:60]
        return f"{encoding}-s{self.seed}-{self.run_id}"

    @property
    def target_tokens(self) -> int:
        """How many bytes at the end of each span the `targets` protocol scores."""
        return min(self.scored or self.train_length // 4, *self.test_lengths)

    def to_json(self) -> dict[str, Any]:
        values = dataclasses.asdict(self) | {"test_lengths": list(self.test_lengths)}
        defaults = {field.name: field.default for field in fields(self)}
        return {k: v for k, v in values.items() if k not in LATER or v != defaults[k]}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "RunConfig":
        """Raises TypeError or SettingError when `values` are not of this version."""
        values = values | {"test_lengths": tuple(values["test_lengths"])}
        check_types(cls, values)
        return cls(**values)


@dataclass(frozen=True)
class Comparison:
    """Everything that a person can choose; the defaults are `posenc compare` without options.

    Lengths count bytes. `minutes`, for all runs together, replaces `steps`. Without `text` the
    models read the standard library's source; with `train_bytes` so much of its training part, as
    often as the steps ask, and are tested on the same text as without. `language` is that of the
    report.
    """

    encodings: tuple[str, ...] = ("none", "learned", "sinusoidal", "rotary", "alibi", "t5")
    train_length: int = RunConfig.train_length
    test_lengths: tuple[int, ...] = RunConfig.test_lengths
    dim: int = RunConfig.dim
    depth: int = RunConfig.depth
    heads: int = RunConfig.heads
    batch: int = RunConfig.batch
    steps: int | None = None
    minutes: float | None = None
    seeds: int = 2
    text: tuple[Path, ...] = ()
    train_bytes: int | None = None
    out: Path = Path("posenc-compare")
    jobs: int | None = None
    language: Language = "en"

    def command(self) -> str:
        """The one command that repeats this comparison."""
        whole = self
        if self.minutes is None:
            whole = replace(self, steps=self.steps or RunConfig.steps)
        words = ["posenc", "compare"]
        for field in fields(whole):
            value = getattr(whole, field.name)
            option = f"--{field.name.replace('_', '-')}"
            if isinstance(value, tuple) and field.name != "text":
                value = ",".join(map(str, value))
            # An option of several files is repeated for each; None means that it was not chosen.
            for one in value if isinstance(value, tuple) else (value,):
                if one is not None:
                    words += [option, str(one)]
        return shlex.join(words)


def check_types(kind: type, values: Mapping[str, Any]) -> None:
    """Raise TypeError where JSON gave a field of a dataclass a value of another type."""
    for name, hint in get_type_hints(kind).items():
        if name not in values:
            continue
        value = values[name]
        if (isinstance(value, bool) and hint is not bool) or not _is(value, hint):
            needed = getattr(hint, "__name__", hint)
            raise TypeError(f"{name} is {value!r}, and {needed} is needed")


def _is(value: Any, hint: Any) -> bool:
    """Whether a value has the type of a field: a plain type, a union of them, or a tuple of one."""
    if isinstance(value, tuple):
        return all(_is(one, get_args(hint)[0]) for one in value)
    # JSON writes a whole float as an int.
    kinds = get_args(hint) or (hint,)
    return isinstance(value, kinds) or (float in kinds and isinstance(value, int))
