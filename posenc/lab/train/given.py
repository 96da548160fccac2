"""What `torchrun -m posenc.lab.train` is given: a run as JSON, and how it is carried out."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from posenc.errors import LabError, SettingError, UnknownNameError
from posenc.lab.config import RunConfig, check_types
from posenc.lab.encodings import named
from posenc.lab.model import settings_of
from posenc.lab.rates import is_search
from posenc.lab.sizes import size_of
from posenc.lab.tasks import find
from posenc.lab.text import Corpus, read_text, standard_library


@dataclass(frozen=True)
class How:
    """How a run is carried out, which is no part of what it is: results do not depend on it.

    out                     the folder of all runs
    text                    what a task of text reads; nothing: Python's standard library
    parallel                ddp or fsdp
    shards                  into how many shares fsdp cuts the weights; None: as many as processes
    accumulate              in how many parts each process reads its share of a batch
    checkpoint_activations  whether activations of blocks are computed again in the backward pass
    device                  auto, cpu or cuda
    """

    out: str = "posenc-lab"
    text: tuple[str, ...] = ()
    parallel: str = "ddp"
    shards: int | None = None
    accumulate: int = 1
    checkpoint_activations: bool = False
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.parallel not in ("ddp", "fsdp"):
            raise SettingError(f"parallel is {self.parallel!r}: it is 'ddp' or 'fsdp'")
        if self.accumulate < 1:
            raise SettingError(f"accumulate is {self.accumulate}: it must be at least 1")
        if self.shards is not None and self.parallel == "ddp":
            raise SettingError(f"shards={self.shards}: only parallel='fsdp' cuts the weights")
        if self.device.partition(":")[0] not in ("auto", "cpu", "cuda"):
            raise SettingError(f"device is {self.device!r}: it is 'auto', 'cpu' or 'cuda'")


def read(path: Path, over: Mapping[str, Any]) -> tuple[RunConfig, How]:
    """The run of a file, or of a run's manifest, and how it is carried out.

    `over` takes the place of what the file says under "how". Raises LabError for a file that
    cannot be read, SettingError and UnknownNameError for what is no setting.
    """
    try:
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise LabError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise LabError(f"{path} is no JSON ({error}): write the run's settings as one") from None
    if not isinstance(values, dict):
        raise LabError(f"{path} holds a {type(values).__name__}: an object of settings is needed")
    how = values.pop("how", {})
    config = values.get("config", values)
    for name, found in (("config", config), ("how", how)):
        if not isinstance(found, dict):
            raise LabError(f"{path}: {name!r} is a {type(found).__name__}, not an object")
    return _run(path, config), _made(path, How, how | over, lists=("text",))


def whole(config: RunConfig, how: How) -> tuple[RunConfig, Corpus | None]:
    """The run with all that its id is made of, and the text that it reads, if it reads any.

    Raises LabError where the text is another than the run's, SettingError where the encoding's
    settings are, and what else would fail later.
    """
    corpus = None
    if config.of_text:
        corpus = read_text([Path(p) for p in how.text]) if how.text else standard_library()
        sha = corpus.summary["sha256"]
        if config.corpus not in ("", sha):
            raise LabError(
                f"the run reads a text of sha256 {config.corpus[:12]}..., and this one is "
                f"{sha[:12]}...: name the run's text with --text, or leave corpus out"
            )
        corpus.require(config.train_length, max(config.test_lengths), 1)
        config = replace(config, corpus=sha)
    settings = settings_of(config)
    if config.settings not in ("", settings):
        raise SettingError(
            f"encoding {config.encoding} is {settings} here, and the run has {config.settings}: "
            "leave settings out, which makes it another run"
        )
    return replace(config, settings=settings), corpus


def _run(path: Path, values: dict[str, Any]) -> RunConfig:
    values = dict(values)
    if "size" in values:
        size = size_of(str(values.pop("size")))._asdict()
        twice = sorted(size.keys() & values.keys())
        if twice:
            raise SettingError(f"{path}: size says {', '.join(twice)} already; give one of them")
        values |= size
    if "encoding" not in values:
        raise SettingError(f'{path}: it names no encoding; add "encoding": "rotary", say')
    if "minutes" in values:
        values.setdefault("steps", None)
    config = _made(path, RunConfig, values, lists=("test_lengths",))
    if config.settings:
        # As a run's manifest has it.
        return config
    config = replace(
        config,
        encoding=named(config.encoding),
        task=find(config.task).spec,
        # A curve against length needs its point at the length that was trained.
        test_lengths=tuple(sorted({*config.test_lengths, config.train_length})),
    )
    if is_search(config):
        raise SettingError(
            f"{path}: seed is {config.seed}, and the only test length is the train length: runs "
            "that look for a learning rate are called so, and tables leave them out; take another"
        )
    return config


def _made(path: Path, kind: type, values: dict[str, Any], lists: tuple[str, ...]) -> Any:
    known = [field.name for field in fields(kind)]
    for name in values:
        if name not in known:
            raise UnknownNameError("setting", name, known)
    for name in values.keys() & {*lists}:
        if not isinstance(values[name], list | tuple):
            raise SettingError(f"{path}: {name} is {values[name]!r}, and a list is needed")
        values = values | {name: tuple(values[name])}
    try:
        check_types(kind, values)
    except TypeError as error:
        raise SettingError(f"{path}: {error}") from None
    return kind(**values)
