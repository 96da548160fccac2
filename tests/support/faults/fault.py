"""One fault, and how it is planted."""

import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from posenc.backends import BACKENDS
from posenc.encoding import Encoding
from posenc.native.library import LIBRARY


@dataclass(frozen=True)
class Fault:
    """`old` becomes `new` in the source of `target`, which `caught_by` then sees of `encoding`.

    alone  no other check sees it, of the whole suite
    """

    name: str
    target: str
    old: str
    new: str
    encoding: Callable[[], Encoding]
    caught_by: str
    alone: bool = False


def plant(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the function wherever posenc holds it, until the test ends."""
    module_name, _, path = fault.target.partition(":")
    # A fault in what calls the kernels shows nowhere without them.
    if module_name.startswith(("posenc.native", "posenc.backends.native")) and isinstance(
        LIBRARY, str
    ):
        pytest.skip(LIBRARY)
    owner: object = importlib.import_module(module_name)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    if path.endswith(".__doc__"):
        text = getattr(owner, name)
        assert fault.old in text, f"{fault.name}: {fault.old!r} is not in {fault.target}"
        monkeypatch.setattr(owner, name, text.replace(fault.old, fault.new))
        return
    original = inspect.getattr_static(owner, name)
    function = inspect.unwrap(getattr(original, "__func__", original))
    source = textwrap.dedent(inspect.getsource(function))
    old, new = textwrap.dedent(fault.old), fault.new
    assert source.count(old) >= 1, f"{fault.name}: {old!r} is not in {fault.target}"
    namespace: dict[str, object] = {}
    # Text that is compiled by itself knows no class that its super() could mean.
    changed = source.replace(old, new).replace("super()", "super(OWNER, self)")
    exec(changed, function.__globals__ | {"CACHE": {}, "OWNER": owner}, namespace)
    changed = namespace[name]
    monkeypatch.setattr(owner, name, changed)
    for module in [m for key, m in sys.modules.items() if key.startswith("posenc")]:
        for attribute, value in list(vars(module).items()):
            if value is original and module is not owner:
                monkeypatch.setattr(module, attribute, changed)
    # A backend is frozen, but its fields are not copied.
    for backend in BACKENDS.values():
        for field, value in list(vars(backend).items()):
            if value is original:
                monkeypatch.setitem(vars(backend), field, changed)
