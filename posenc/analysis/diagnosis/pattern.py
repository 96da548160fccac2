"""Where two results differ, in words."""

from typing import NamedTuple

from posenc.analysis.diagnosis.computation import Kind, Results
from posenc.analysis.ranges import ranges

NAMES: dict[Kind, tuple[str, ...]] = {
    "turned": ("q", "k"),
    "scores": ("scores",),
    "output": ("output",),
    "embedded": ("embeddings",),
}


class Place(NamedTuple):
    """One element: of which tensor, and where in it; `dim` is the key where it is of scores."""

    tensor: str
    batch: int
    head: int
    token: int
    dim: int

    def shown(self, kind: Kind) -> str:
        column = "key" if kind == "scores" else "dimension"
        head = "" if kind == "embedded" else f", head {self.head}"
        return (
            f"token {self.token}, {column} {self.dim} of {self.tensor} "
            f"(batch row {self.batch}{head})"
        )


def excess_of(ours: Results, theirs: Results, allowed: Results) -> Results:
    """How many times what rounding allows each element is apart; hidden scores must be alike."""
    times = []
    for one, two, most in zip(ours, theirs, allowed, strict=True):
        apart = (one.double() - two.double()).abs().masked_fill(one == two, 0.0)
        times.append((apart / most.clamp(min=1e-300)).masked_fill(apart == 0, 0.0))
    return tuple(times)


def first_place(excess: Results, kind: Kind) -> Place | None:
    """The first element beyond what is allowed: by token, then dimension, batch and head."""
    places = []
    for name, one in zip(NAMES[kind], excess, strict=False):
        beyond = one > 1
        heads = beyond if beyond.ndim == 4 else beyond[:, None]
        tokens = heads.any(-1).flatten(0, 1).any(0).nonzero()
        if len(tokens):
            token = int(tokens[0])
            dim, batch, head = min(heads[:, :, token].permute(2, 0, 1).nonzero().tolist())
            places.append(Place(name, batch, head, token, dim))
    return min(places, key=lambda place: place.token, default=None)


def element(results: Results, place: Place, kind: Kind) -> float:
    result = results[NAMES[kind].index(place.tensor)]
    head = (place.head,) if result.ndim == 4 else ()
    return result[place.batch, *head, place.token, place.dim].item()


def pattern_of(excess: Results, kind: Kind) -> str:
    """Which tensors, rows, heads and dimensions differ, where it is not all of them."""
    differing = {name: one > 1 for name, one in zip(NAMES[kind], excess, strict=False)}
    differing = {name: beyond for name, beyond in differing.items() if beyond.any()}
    sentences = []
    if len(differing) < len(excess):
        sentences.append(f"Only {next(iter(differing))} differs.")
    for name, beyond in differing.items():
        columns = "keys" if kind == "scores" else "dimensions"
        axes = {"batch rows": 0, "heads": 1, columns: -1}
        if kind == "embedded":
            del axes["heads"]
        for what, axis in axes.items():
            where = beyond.transpose(0, axis).flatten(1).any(-1).nonzero().flatten().tolist()
            if len(where) < beyond.shape[axis]:
                count = beyond.shape[axis]
                sentences.append(f"Of the {count} {what} of {name}, {_ranges(where)} differ.")
    return " ".join(sentences)


def _ranges(numbers: list[int]) -> str:
    """The first ranges of these numbers."""
    runs = ranges(numbers)
    return ", ".join(runs[:6]) + (" and others" if len(runs) > 6 else "")
