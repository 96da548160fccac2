"""The claims that a comparison's findings are about, for its report."""

from posenc.claims import claims
from posenc.claims.claim import Claim
from posenc.claims.kept import kept
from posenc.claims.verdict import cells
from posenc.lab.published import Published


def published() -> list[Published]:
    """Claims with a result, about encodings trained on a text that differ in nothing else."""
    found = []
    for claim in claims().values():
        result, encodings = kept(claim.name), _encodings(claim)
        if result is not None and encodings:
            found.append(Published(claim.name, claim.says, result["outcome"], encodings))
    return found


def _encodings(claim: Claim) -> tuple[str, ...]:
    """Those that it speaks of; none where it is about something that no comparison shows."""
    arms = claim.arms("small")
    spoken = [arms[label] for label in dict.fromkeys(cell.arm for cell in cells(claim))]
    alike = {(arm.task, arm.base, arm.dim, arm.depth, arm.heads, arm.positions) for arm in spoken}
    names = tuple(dict.fromkeys(arm.encoding for arm in spoken))
    plain = all(arm.task == "text" and not arm.base for arm in spoken)
    return names if plain and len(alike) == 1 and len(names) == len(spoken) else ()
