"""Published claims that anyone can run, and what came out: one file each, found here by name."""

import importlib
import pkgutil

from posenc.claims import registry
from posenc.claims.claim import Cell as Cell
from posenc.claims.claim import Claim as Claim
from posenc.claims.claim import Expectation as Expectation
from posenc.errors import UnknownNameError


def claims() -> dict[str, Claim]:
    """All claims by name."""
    found = {}
    for module in pkgutil.iter_modules(registry.__path__):
        claim = importlib.import_module(f"{registry.__name__}.{module.name}").CLAIM
        found[claim.name] = claim
    return found


def find(name: str) -> Claim:
    """The claim of a name; capitals, hyphens and underscores make no difference."""
    known = {_letters(own): claim for own, claim in claims().items()}
    if _letters(name) not in known:
        raise UnknownNameError("claim", name, claims())
    return known[_letters(name)]


def _letters(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
