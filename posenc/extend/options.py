"""What a person chooses of `posenc extend`: plain values, and the command that repeats them."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from posenc.errors import SettingError, one_of, whole
from posenc.extend.search.settings import Search
from posenc.extend.tune.settings import Tuning, tunable
from posenc.words import Language

PROTOCOL = 1
"""Raised whenever the same choices would no longer give the same numbers."""

METHODS = (
    "none", "linear", "ntk", "dynamic", "yarn", "llama3",
    "self_extend", "rerope", "lm_infinite", "sinks",
)  # fmt: skip
# The method whose factors are searched on the model itself.
SEARCHED = "longrope2"
MEASURES = ("windows", "targets", "sliding", "short", "passkey")


@dataclass(frozen=True)
class Options:
    """Everything that a person can choose; the defaults are `posenc extend MODEL`.

    Lengths count tokens; `to` empty is twice the trained length. spans is how many stretches of
    text are read, needles how many passkeys are hidden at each depth and length. tuning
    trains those methods that it can, which are measured beside the methods as they are. search
    finds the factors of longrope2. language is that of the page. Raises SettingError for values
    that no run can have.
    """

    model: Path
    to: tuple[int, ...] = ()
    methods: tuple[str, ...] = METHODS
    measures: tuple[str, ...] = MEASURES
    text: tuple[Path, ...] = ()
    out: Path = Path("posenc-extend")
    spans: int = 3
    needles: int = 2
    seed: int = 0
    write: str | None = None
    tuning: Tuning | None = None
    search: Search | None = None
    language: Language = "en"

    def __post_init__(self) -> None:
        for option, names, known in (
            ("methods", self.methods, (*METHODS, SEARCHED)),
            ("measures", self.measures, MEASURES),
        ):
            if not names:
                raise SettingError(f"extend --{option}: nothing is named, of {', '.join(known)}")
            for name in names:
                one_of("extend", known, **{option.removesuffix("s"): name})
        if self.write is not None:
            # The model's own configuration says the model as it is.
            known = [name for name in (*METHODS, SEARCHED) if name != "none"]
            one_of("extend", known, write=self.write)
        if self.search is None and SEARCHED in (*self.methods, self.write):
            raise SettingError(f"extend: {SEARCHED} is made of searched factors; give --search too")
        if self.tuning is not None:
            tunable(self.methods)
        whole("extend", spans=self.spans, needles=self.needles)
        whole("extend", 0, seed=self.seed)
        for length in self.to:
            whole("extend", 2, to=length)

    def command(self) -> str:
        """The one command that repeats this."""
        words = ["posenc", "extend", str(self.model)]
        if self.to:
            words += ["--to", ",".join(map(str, self.to))]
        words += ["--methods", ",".join(self.methods), "--measures", ",".join(self.measures)]
        for path in self.text:
            words += ["--text", str(path)]
        words += ["--out", str(self.out), "--spans", str(self.spans)]
        words += ["--needles", str(self.needles), "--seed", str(self.seed)]
        words += ["--language", self.language]
        words += self.tuning.words() if self.tuning else []
        words += self.search.words() if self.search else []
        words += ["--write", self.write] if self.write else []
        return shlex.join(words)
