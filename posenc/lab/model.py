"""The model of a run, and its encodings."""

import re
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from posenc.api import Transformer
from posenc.encoding import Encoding
from posenc.errors import SettingError
from posenc.lab import pretrained
from posenc.lab.config import RunConfig
from posenc.lab.encodings import files_of, made
from posenc.lab.placing import check_placing, drawn
from posenc.lab.pretrained import Pretrained
from posenc.lab.tasks import Task, find


def make_encodings(config: RunConfig, task: Task) -> list[Encoding]:
    """The encodings of a configuration, with room for the longest test length."""
    return made(
        config.encoding,
        model_dim=config.dim,
        heads=config.heads,
        max_length=_longest(config, task),
        train_length=task.tokens(config.train_length),
        causal=task.causal,
    )


def settings_of(config: RunConfig) -> str:
    """The repr of a configuration's encodings; raises when there is none to compare.

    Whatever is planned asks for it. Raises SettingError where its positions do not suit its tests.
    """
    task = find(config.task)
    check_placing(config, task.tokens)
    if config.model:
        return pretrained.settings_of(config)
    encodings = make_encodings(config, task)
    refusals = [e.tags.comparable for e in encodings if e.tags.comparable is not True]
    # What changes nothing alone may do so beside another.
    if len(refusals) == len(encodings):
        raise SettingError(f"{config.encoding} cannot be compared: {refusals[0]}")
    if len(encodings) > 1:
        _check_together(config, task, encodings)
    # A repr with an address would be another run each time; other code is another run.
    shown = re.sub(r" at 0x[0-9a-fA-F]+", "", " + ".join(map(repr, encodings)))
    return shown + files_of(encodings)


def build(
    config: RunConfig, task: Task | None = None, out: Path | None = None
) -> Transformer | Pretrained:
    """The model of a configuration, freshly initialised from its seed, or trained by others.

    Weights outside the encoding are those of the model without one, where their shapes agree.
    `out` is the folder of all runs, where a model may be kept as it loads fast.
    """
    if config.model:
        return pretrained.build(config, out)
    task = find(config.task) if task is None else task
    torch.manual_seed(config.seed)
    model = _transformer(config, task.vocabulary, task, make_encodings(config, task))
    torch.manual_seed(config.seed)
    plain = _transformer(config, task.vocabulary, task, None).state_dict()
    own = model.state_dict()
    same = {name for name in plain.keys() & own.keys() if plain[name].shape == own[name].shape}
    model.load_state_dict(own | {name: plain[name] for name in same})
    return model


def encoding_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that belong to encodings, each once."""
    found = {
        id(parameter): parameter
        for module in model.modules()
        if isinstance(module, Encoding)
        for parameter in module.parameters()
    }
    return list(found.values())


def _check_together(config: RunConfig, task: Task, encodings: list[Encoding]) -> None:
    """Let one layer read two tokens, and raise what it raises, as of two rotations in one call."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        # The vocabulary of a text may be known only where the text is.
        small = _transformer(replace(config, depth=1), 2, task, encodings)
        small(torch.zeros(1, 2, dtype=torch.long))


def _transformer(
    config: RunConfig, vocabulary: int, task: Task, encodings: list[Encoding] | None
) -> Transformer:
    return Transformer(
        vocab_size=vocabulary,
        dim=config.dim,
        depth=config.depth,
        heads=config.heads,
        encoding=encodings,
        max_length=_longest(config, task),
        causal=task.causal,
    )


def _longest(config: RunConfig, task: Task) -> int:
    """Room for every token and every position of training and tests."""
    found = drawn(config)
    lengths = (*config.test_lengths, config.train_length)
    return max(*map(task.extent, lengths), found[1]["longest"] if found else 0)
