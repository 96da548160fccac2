"""Names that a package has from its modules, each loaded on first use with what it needs."""

import importlib
import sys
from pathlib import Path
from typing import Any


def named_in(listing: str, name: str, package: str) -> Any:
    """What the module `listing` imports by this name, or a module of the package, which keeps it.

    Raises AttributeError for any other name, and for private ones.
    """
    unknown = AttributeError(f"module {package!r} has no attribute {name!r}")
    if name.startswith("_"):
        raise unknown
    home = _home(listing, name)
    found = None if home is None else vars(importlib.import_module(home)).get(name)
    if found is None:
        module = f"{home or package}.{name}"
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise unknown from None
    # As an import would, so that nobody asks twice.
    return vars(sys.modules[package]).setdefault(name, found)


def _home(listing: str, name: str) -> str | None:
    """The module from which `listing` has a name; to run its lines would load everything."""
    file = Path(__file__).parents[1] / f"{listing.replace('.', '/')}.py"
    try:
        lines = file.read_text("utf-8").splitlines()
    except OSError:
        # An archive without sources.
        return listing
    for line in lines:
        match line.split():
            case ["from", module, "import", found, *_] if module.startswith("posenc"):
                if found == name:
                    return module
                if found == "*" and (home := _home(module, name)) is not None:
                    return home
    return None
