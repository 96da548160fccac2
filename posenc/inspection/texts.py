"""The texts that a model reads while it is looked at: one, turned round several times.

Letters: b texts, t tokens.
"""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc.errors import SettingError, UnsupportedError

TEXTS = 4
TOKENS = 256


@dataclass(frozen=True, eq=False)
class Texts:
    """ids (b, t): the text, and the same turned round by a part of its length.

    Tokens that the tokenizer puts before and behind every text, as [CLS] and [SEP], stay in their
    places; `exchanged` are those between. `source` says where the text is from.
    """

    ids: Tensor
    exchanged: slice
    source: str


def read_text(path: Path | None) -> tuple[str, str]:
    """The text of a file, or the one that comes with posenc, and its name.

    Raises SettingError for a file that holds no text.
    """
    if path is None:
        own = resources.files("posenc.inspection").joinpath("text.txt")
        return own.read_text("utf-8"), "posenc's own"
    data = path.read_bytes()
    if b"\0" in data:
        raise SettingError(
            f"inspect --text {path}: the file is binary (it has a NUL byte); give plain text"
        )
    return data.decode("utf-8", errors="replace"), str(path)


def make_texts(
    tokenizer: Any, path: Path | None, tokens: int | None, longest: int | None, words: int
) -> Texts:
    """The first `tokens` tokens of the text, TOKENS if None; a model takes `longest` at most.

    Without a tokenizer, and without a file, tokens are drawn at random among `words`. Raises
    SettingError for more tokens than the model takes, and for a text of less than two;
    UnsupportedError for a file that nothing splits into tokens.
    """
    if tokens is not None and (tokens < 2 or (longest is not None and tokens > longest)):
        most = "" if longest is None else f", and this model takes {longest} at most"
        raise SettingError(f"inspect --tokens {tokens}: give 2 or more{most}")
    limit = min(TOKENS, longest or TOKENS) if tokens is None else tokens
    if tokenizer is None:
        if path is not None:
            raise UnsupportedError(
                f"inspect --text {path}: the model has no tokenizer; without --text it is given "
                "random tokens"
            )
        drawn = torch.randint(words, (limit,), generator=torch.Generator().manual_seed(0))
        return _turned([], drawn.tolist(), [], "random tokens, for the model has no tokenizer")
    text, source = read_text(path)
    # It would warn of more tokens than the model takes, which are cut off here.
    whole = tokenizer(text, verbose=False)["input_ids"]
    inner = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    before = _start(whole, inner)
    prefix, suffix = whole[:before], whole[before + len(inner) :]
    inner = inner[: max(limit - len(prefix) - len(suffix), 0)]
    if len(inner) < 2:
        raise SettingError(
            f"inspect: {source} gives {len(inner)} tokens, besides {len(prefix) + len(suffix)} "
            "that the tokenizer adds: give 2 or more, and --tokens that hold them"
        )
    return _turned(prefix, inner, suffix, source)


def _start(whole: list[int], inner: list[int]) -> int:
    """Where the text begins behind what the tokenizer adds."""
    for start in range(len(whole) - len(inner) + 1):
        if whole[start : start + len(inner)] == inner:
            return start
    return 0


def _turned(prefix: list[int], inner: list[int], suffix: list[int], source: str) -> Texts:
    count = min(TEXTS, len(inner))
    turns = [round(turn * len(inner) / count) for turn in range(count)]
    rows = [prefix + inner[turn:] + inner[:turn] + suffix for turn in turns]
    exchanged = slice(len(prefix), len(prefix) + len(inner))
    return Texts(torch.tensor(rows), exchanged, source)
