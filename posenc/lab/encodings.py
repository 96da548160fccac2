"""Encodings as a comparison names them, with settings and together: window(width=64) + rotary."""

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from posenc import api
from posenc.catalogue import canonical, make
from posenc.encoding import Encoding
from posenc.errors import SettingError
from posenc.lab.spelling import spelled, split

# Of what takes no settings, which another spelling makes no other run.
_EMPTY = re.compile(r"\(\s*\)")
# Whose code is told by its version.
_KNOWN = {*sys.stdlib_module_names, "posenc", "torch"}
SCALINGS = (
    *("DynamicNTK", "DynamicYaRN", "Linear", "Llama3", "LongRoPE", "NTK", "Proportional"),
    *("Resonance", "YaRN"),
)


def made(text: str, **sizes: Any) -> list[Encoding]:
    """The encodings that a name stands for, with settings that suit a model of these sizes.

    `sizes` are those of `posenc.catalogue.make`. Raises PosencError for what there is not.
    """
    parts = [spelled(part, scalings()) for part in split(text, "+")]
    if not parts:
        raise SettingError("an encoding without a name: give one, as in rotary, or none")
    own = {"head_dim": sizes["model_dim"] // sizes["heads"], **sizes}
    for name, settings in parts:
        refuse_sizes(name, settings, own)
    return [make(name, **sizes, **settings) for name, settings in parts]


def refuse_sizes(name: str, settings: Mapping[str, Any], sizes: Mapping[str, Any]) -> None:
    """Raise SettingError for a setting that the model gives itself."""
    for setting in settings.keys() & sizes.keys():
        raise SettingError(
            f"{name}({setting}={settings[setting]!r}): {setting} is that of the model, "
            f"{sizes[setting]!r} here: leave it away"
        )


def scalings() -> dict[str, Any]:
    """What a rotation's scaling may be made by."""
    return {name: getattr(api, name) for name in SCALINGS}


def files_of(encodings: Iterable[Encoding]) -> str:
    """What the files of encodings of one's own hold, as " of mine.py 0a1b2c3d"; else nothing."""
    kinds = {kind.__module__ for one in encodings for kind in type(one).__mro__}
    own = (name for name in sorted(kinds) if name.partition(".")[0] not in _KNOWN)
    paths = (Path(getattr(sys.modules.get(name), "__file__", None) or "") for name in own)
    held = [(path.name, path.read_bytes()) for path in paths if path.is_file()]
    return "".join(f" of {name} {hashlib.sha256(text).hexdigest()[:8]}" for name, text in held)


def named(text: str) -> str:
    """The same encodings by the catalogue's own names, with the settings as they were typed."""
    parts = []
    for part in split(text, "+"):
        name = spelled_name(part)
        brackets = part[len(name) :].strip()
        parts.append(canonical(name) + ("" if _EMPTY.fullmatch(brackets) else brackets))
    return " + ".join(parts)


def spelled_name(part: str) -> str:
    """What stands before the brackets."""
    return part.partition("(")[0].strip()
