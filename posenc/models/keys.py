"""The keys of a configuration, read one by one."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from posenc.errors import ConfigError, shown

_T_co = TypeVar("_T_co", covariant=True)

# No model has more layers, heads or tokens; a file that says so would fill the memory.
MOST = 1 << 31
LAYERS = 10_000
# Of heads of a layer, and of dimensions of a head.
SIZES = 1 << 16
# Powers and products of what is smaller are finite; GGUF files have float32's 1e30 for no turn.
LARGEST_NUMBER = 2e30
# No published config.json reaches a quarter of it.
LARGEST_FILE = 8 << 20
_OF_POSITIONS = re.compile(
    r"rope|rotary|yarn|position|alibi|relative|window|chunk|sink|layer_types|theta"
    r"|attn_scale|temperature|attention_(scal|mult)|query_pre_attn|qk_",
)
# They look alike and tell nothing of positions.
_OTHER = re.compile(
    r"chunk_size_feed_forward|^temperature$|logits_temperature|qk_(layer)?norm|use_qk|mamba|ssm"
    r"|top_|^mlp_|sinkhorn|initializ|id$|tokens?$"
)


class Sourced(NamedTuple, Generic[_T_co]):
    """A value, and the key that it came from."""

    value: _T_co
    key: str


class Keys:
    """A configuration that knows which of its keys were read.

    `silent` are the values that the code of the model type takes where a key is missing. `names`
    are what the file calls its keys, where not as they are asked for. A value of the wrong kind
    raises ConfigError with the key and the value.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        silent: Mapping[str, Any] | None = None,
        owner: str = "",
        path: str = "",
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.values, self.silent, self.names = values, silent or {}, names or {}
        self.owner, self.path = owner, path
        self._read: set[str] = set()
        self._inner: dict[str, Keys] = {}
        self._left: list[str] = []

    def any(self, *names: str) -> Sourced[Any]:
        """The first of these that is there and not null; None where none is.

        A file that says null is not silent: its code takes None, whatever it would take by itself.
        """
        self._read.update(names)
        for name in names:
            if self.values.get(name) is not None:
                return Sourced(self.values[name], self._called(name))
        for name in names:
            if name in self.values:
                return Sourced(None, self.path + name)
        for name in names:
            if name in self.silent:
                return Sourced(self.silent[name], f"default of {self.owner}")
        return Sourced(None, f"no {self._called(names[0])}")

    def _called(self, name: str) -> str:
        """What the file calls this key."""
        return self.names.get(self.path + name, self.path + name)

    def given(self, name: str) -> bool:
        """Whether the file itself says something else than null."""
        return self.values.get(name) is not None

    def whole(self, *names: str, least: int = 1, most: int = MOST) -> Sourced[int]:
        """A whole number, which must be there."""
        value = self.maybe_whole(*names, least=least, most=most)
        if value.value is None:
            raise ConfigError(
                f"{self.where()} has no {' or '.join(map(self._called, names))}, and without it "
                "nobody knows what this model does: give the whole file"
            )
        return Sourced(value.value, value.key)

    def one_whole(self, *names: str, least: int = 1, most: int = MOST) -> Sourced[int]:
        """A whole number under any of these names; files that give several must agree."""
        said = {name: self.values[name] for name in names if self.given(name)}
        value = self.whole(*names, least=least, most=most)
        for name, twin in said.items():
            check_same(value, Sourced(twin, self.path + name))
        return value

    def maybe_whole(self, *names: str, least: int = 1, most: int = MOST) -> Sourced[int | None]:
        """A whole number, or None where nothing is said; 2048.0 is 2048."""
        value, key = self.any(*names)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is not None and (
            not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most
        ):
            raise self.wrong(key, value, f"a whole number from {least} to {most}")
        return Sourced(value, key)

    def maybe_number(self, *names: str, least: float = 0.0) -> Sourced[float | None]:
        """A finite number, or None where nothing is said."""
        value, key = self.any(*names)
        if value is None:
            return Sourced(None, key)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong(key, value, "a number")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        # NaN is in no range.
        if not least <= value <= LARGEST_NUMBER:
            raise self.wrong(key, value, f"a number from {least} to {LARGEST_NUMBER}")
        return Sourced(value, key)

    def flag(self, *names: str) -> Sourced[bool]:
        """True or false; false where nothing is said."""
        value, key = self.any(*names)
        if value not in (None, True, False):
            raise self.wrong(key, value, "true or false")
        return Sourced(bool(value), key)

    def word(self, *names: str) -> Sourced[str | None]:
        """A name, or None where nothing is said."""
        value, key = self.any(*names)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, value, "a name")
        return Sourced(value, key)

    def list(self, *names: str, most: int = LAYERS) -> Sourced[Sequence[Any] | None]:
        """A list, or None where nothing is said."""
        value, key = self.any(*names)
        if value is not None and (not isinstance(value, list | tuple) or len(value) > most):
            raise self.wrong(key, value, f"a list of at most {most}")
        return Sourced(value, key)

    def numbers(self, *names: str) -> Sourced[tuple[float, ...] | None]:
        """A list of finite numbers above zero, or None where nothing is said."""
        value, key = self.list(*names)
        for x in value or ():
            if not isinstance(x, int | float) or isinstance(x, bool) or not 0 < x <= LARGEST_NUMBER:
                raise self.wrong(key, x, f"a list of numbers above 0 and up to {LARGEST_NUMBER}")
        return Sourced(None if value is None else tuple(map(float, value)), key)

    def whole_numbers(self, *names: str) -> Sourced[tuple[int, ...] | None]:
        """A list of whole numbers, or None where nothing is said."""
        value, key = self.list(*names)
        for x in value or ():
            if not isinstance(x, int) or isinstance(x, bool) or not 0 <= x <= MOST:
                raise self.wrong(key, x, "a list of whole numbers")
        return Sourced(None if value is None else tuple(value), key)

    def leave(self, name: str, why: str) -> None:
        """Say that this key is known, and that no rule reads what is under it."""
        self._read.add(name)
        self._inner.pop(name, None)
        self._left.append(f"{self.path}{name} ({why})")

    def inside(self, *names: str) -> "Keys | None":
        """The keys of an object under this one, or None where there is none."""
        value, key = self.any(*names)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(key, value, "an object")
        name = next((name for name in names if self.given(name)), names[0])
        if name not in self._inner:
            path = f"{self.path}{name}."
            self._inner[name] = Keys(value, owner=self.owner, path=path, names=self.names)
        return self._inner[name]

    def unread(self) -> tuple[str, ...]:
        """Keys that speak of positions, hold something, and were not read."""
        own = [
            self._called(name)
            for name, value in self.values.items()
            if isinstance(name, str)
            and name not in self._read
            and value not in (None, False, [], {})
            and (self.path.endswith(_ROPE) or _OF_POSITIONS.search(name))
            and not _OTHER.search(name)
        ]
        inner = [name for keys in self._inner.values() for name in keys.unread()]
        return tuple(sorted(own + inner + self._left))

    def where(self) -> str:
        """What messages call this."""
        return self.path.rstrip(".") or "the configuration"

    def wrong(self, key: str, value: object, wanted: str) -> ConfigError:
        return ConfigError(f"{key} is {shown(value)}: {wanted} is needed")


def check_same(one: Sourced[Any], other: Sourced[Any]) -> None:
    """Raise ConfigError where two keys that mean the same say two things."""
    if one.value != other.value:
        raise ConfigError(
            f"{one.key} is {shown(one.value)} and {other.key} is {shown(other.value)}, which mean "
            "the same: take one of them out"
        )


_ROPE = ("rope_parameters.", "rope_scaling.")


def load(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ConfigError for one that is large, deep or no JSON."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise ValueError(f"it is larger than {LARGEST_FILE >> 20} MiB")
        values = json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not a model's configuration: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} is not a model's configuration: it is no JSON object")
    return values
