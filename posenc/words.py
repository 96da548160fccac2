"""What people read, in English and in Chinese: texts by key, and what fills them in."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Literal

from posenc.errors import SettingError

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
# What is said, by key: in English and in Chinese.
Texts = Mapping[str, tuple[str, str]]
WIDE = "[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]"
GAP = re.compile(f"(?<={WIDE}) (?={WIDE})")
# Stands for a space of what is filled in, which no path and no text has.
KEPT = "\0"


@dataclass(frozen=True)
class Saying:
    """A text before a language is chosen: its key, and what fills it in."""

    key: str
    values: Mapping[str, object] = field(default_factory=dict)


def columns(text: str) -> int:
    """How wide a text is where each Latin letter takes one column: a Chinese one takes two."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


class Words:
    """The words of one language: say("position"), say("head", head=3).

    Names are joined, and of two texts the first is for one: with names=("a", "b") and runs=1
    "{names} {names:holds|hold} in {runs:# run|# runs}" is "a and b hold in 1 run". Chinese letters
    stand without a space between them, but within what is filled in, such as a path. Raises
    SettingError for a language that is not there.
    """

    def __init__(self, language: str, texts: Texts) -> None:
        if language not in LANGUAGES:
            raise SettingError(f"language={language!r}: posenc speaks 'en' and 'zh'")
        self.language, self.texts = language, texts
        self.column = LANGUAGES.index(language)

    def __call__(self, key: str, /, **values: object) -> str:
        spoken = {name: self._spoken(value) for name, value in values.items()}
        return GAP.sub("", self.texts[key][self.column].format(**spoken)).replace(KEPT, " ")

    def of(self, saying: Saying) -> str:
        return self(saying.key, **saying.values)

    def listed(self, names: Sequence[str]) -> str:
        """`a, b and c`."""
        comma, last = ((", ", " and "), ("、", " 和 "))[self.column]
        return last.join(filter(None, (comma.join(names[:-1]), *names[-1:])))

    def _spoken(self, value: object) -> object:
        if isinstance(value, Saying):
            return self.of(value)
        if isinstance(value, tuple | list):
            return _Several(self.listed(value), len(value))
        if isinstance(value, int) and not isinstance(value, bool):
            return counted(value)
        if isinstance(value, str | PathLike):
            return str(value).replace(" ", KEPT)
        return value


def counted(count: int) -> "_Several":
    """A number that is filled in where a text depends on whether it is one."""
    return _Several(count, count)


class _Several:
    """A value that knows whether it is one, for texts that depend on it."""

    def __init__(self, value: object, count: int) -> None:
        self.value, self.count = value, count

    def __format__(self, spec: str) -> str:
        one, bar, more = spec.partition("|")
        if not bar:
            return format(self.value, spec)
        return (one if self.count == 1 else more).replace("#", str(self.value))
