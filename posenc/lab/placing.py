"""Where the tokens of a batch stand: counted, as the task says, or drawn as a comparison asks."""

from collections.abc import Callable
from typing import Any

import torch

from posenc.errors import PosencError, SettingError
from posenc.lab.config import RunConfig
from posenc.lab.spelling import spelled
from posenc.lab.tasks.task import Batch
from posenc.positions import Positions

# By name: what draws them, and whether a model is tested so, too.
DRAWN = {"random": (Positions.random, True), "skipping": (Positions.skipping, False)}


def drawn(config: RunConfig) -> tuple[str, dict[str, Any]] | None:
    """How positions are drawn, and up to where; None where they are not.

    Raises SettingError for what is neither random(longest=n) nor skipping(longest=n).
    """
    if not config.positions:
        return None
    name, settings = spelled(config.positions)
    longest = settings.get("longest")
    if name not in DRAWN or not isinstance(longest, int) or longest < 1:
        raise SettingError(
            f"positions are {config.positions!r}: they are drawn as {' or '.join(DRAWN)}, up to a "
            "longest, as in random(longest=2048); without a name they are counted"
        )
    return name, settings


def check_placing(config: RunConfig, tokens: Callable[[int], int]) -> None:
    """Raise SettingError where a run's positions could not be drawn, or do not suit its tests.

    tokens  how many there are in an example of a length
    """
    found = drawn(config)
    if found is None:
        return
    (name, settings), text = found, f"positions are {config.positions!r}"
    make, tested = DRAWN[name]
    if tested and config.of_text:
        raise SettingError(
            f"{text}, and task {config.task} reads a text: random ones "
            "stay random in tests, and tests of texts count them; take a made task, such as copy, "
            "or skipping(longest=n), which is for training alone"
        )
    for length in (config.train_length, *(config.test_lengths if tested else ())):
        try:
            make(tokens(length), batch=1, generator=torch.Generator(), **settings)
        except (PosencError, TypeError) as error:
            raise SettingError(
                f"{text}, and {config.task} of length {length} has {tokens(length)} tokens: {error}"
            ) from None


def placed(
    config: RunConfig, batch: Batch, causal: bool, *, training: bool = False
) -> Positions | None:
    """What a model is told of a batch's positions; None where they are counted from 0.

    Random ones (Ruoss et al. 2023) stay random in tests, as in the paper; those that skip ahead
    (PoSE, Zhu et al. 2024) are for training alone.
    """
    found = drawn(config)
    if found is None or not (training or DRAWN[found[0]][1]):
        return None if batch.ids is None else Positions.build(ids=batch.ids, causal=causal)
    rows, tokens = batch.tokens.shape
    make = DRAWN[found[0]][0]
    return make(tokens, batch=rows, causal=causal, device=batch.tokens.device, **found[1])
