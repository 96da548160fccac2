"""What an encoding has learned at one length, and what it reads at another that it has not."""

import copy
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from posenc.analysis.measure.rotations import largest_angles
from posenc.analysis.measure.tables import distance_table, position_table
from posenc.analysis.probe_context import context_for, embeds, sizes_for
from posenc.analysis.ranges import ranges
from posenc.encoding import Encoding
from posenc.equation import output_of, scores_of
from posenc.errors import SettingError, UnsupportedError
from posenc.lowering import embeds_only, lower
from posenc.positions import Positions, Tokens

# How far apart numbers may be that are the same but for rounding, relative to the largest.
NEAR = 1e-9

Reached = dict[str, Bool[Tensor, "*shape"]]


@dataclass(frozen=True, eq=False)
class Budget:
    """What is trained with inputs of train_length tokens, and what `length` tokens meet beyond it.

    parameters         how many numbers are trained
    largest_position   the largest position of training
    largest_distance   the largest distance of training between tokens that see each other
    untrained          by parameter, the entries that `length` reads and training never did
    idle               by parameter, the entries that neither reads
    said_of            what it tells apart: "positions", "distances", or "content" and nothing else
    unseen             those of 0 .. length - 1 of which it says what it never said in training
    turns              of each rotated pair, turns between the farthest tokens of training; None
                       without rotations
    new_angles         the pairs that completed less than one turn in training, and turn farther
                       at `length`, by more than a token
    """

    train_length: int
    length: int
    parameters: int
    largest_position: int
    largest_distance: int
    untrained: Reached
    idle: Reached
    said_of: Literal["positions", "distances", "content"]
    unseen: Bool[Tensor, "t"]
    turns: Float64[Tensor, "#h r"] | None
    new_angles: Bool[Tensor, "#h r"] | None

    def __str__(self) -> str:
        lines = [
            f"{self.parameters} parameters",
            f"trained on {self.train_length} tokens: positions to {self.largest_position}, "
            f"distances to {self.largest_distance}",
        ]
        if self.said_of != "content":
            rows = self.unseen.nonzero().flatten().tolist()
            which = " (" + ", ".join(ranges(rows)) + ")" if rows else ""
            lines.append(f"new at {self.length}: {len(rows)} {self.said_of}{which}")
        for what, masks in (("untrained", self.untrained), ("never read", self.idle)):
            for name, mask in masks.items():
                if mask.any():
                    lines.append(f"{what} at {self.length}: {name}{_where(mask)}")
        if self.turns is not None and self.new_angles is not None:
            short = int((self.turns < 1).sum())
            lines.append(
                f"{short} of {self.turns.numel()} pairs turn less than once in training, "
                f"{int(self.new_angles.sum())} meet new angles at {self.length}"
            )
        return "\n".join(lines)


def budget(
    encoding: Encoding,
    train_length: int,
    length: int,
    *,
    causal: bool = True,
    trained: Encoding | None = None,
) -> Budget:
    """What an encoding that is trained at train_length has not learned for inputs of length.

    What an input reads is found by differentiating what it gives, so that it holds for any
    encoding: an entry whose gradient is 0 for random queries and keys has not been read. trained
    is the encoding of training where another takes its place for longer inputs, as in
    budget(Rotary(64, scaling=YaRN(4, 4096)), 4096, 16384, trained=Rotary(64)); its angles and what
    it said are compared.

        budget(pe.Learned(64, 512), 128, 512).untrained["weight"]   # True for rows 128 to 511

    Raises SettingError for lengths below 1 and train_length > length, and what the encoding raises
    for inputs that it cannot read, as tables do that are too short.

    Source: pairs that turn less than once: Peng et al. 2023, arXiv:2309.00071, "NTK-by-parts".
    """
    if not 1 <= train_length <= length:
        raise SettingError(
            f"budget(train_length={train_length}, length={length}): 1 <= train_length <= length "
            "is needed"
        )
    first = encoding if trained is None else trained
    before, distance = _reached(encoding, train_length, causal)
    after, _ = _reached(encoding, length, causal)
    turns = new = None
    with suppress(UnsupportedError):
        angles, farther = largest_angles(first, train_length), largest_angles(encoding, length)
        turns = angles / (2 * math.pi)
        # A larger angle of a pair that turned whole has been seen as a smaller one. Interpolation
        # ends within a token of what training reached.
        reach = angles * (train_length / max(train_length - 1, 1))
        new = (turns < 1) & (farther > reach * (1 + NEAR))
    said_of, known = _said(first, train_length)
    _, said = _said(encoding, length)
    return Budget(
        train_length,
        length,
        sum(p.numel() for p in encoding.parameters() if p.requires_grad),
        train_length - 1,
        distance,
        {name: after[name] & ~mask for name, mask in before.items()},
        {name: ~after[name] & ~mask for name, mask in before.items()},
        said_of,
        _unlike(said, known),
        turns,
        new,
    )


def _said(
    encoding: Encoding, length: int
) -> tuple[Literal["positions", "distances", "content"], Float64[Tensor, "t c"]]:
    """What it says of each position, or distance; no columns where content decides."""
    if embeds(encoding):
        return "positions", position_table(encoding, length)
    try:
        return "distances", distance_table(encoding, length)
    except UnsupportedError:
        return "content", torch.zeros(length, 0, dtype=torch.float64)


def _unlike(said: Float64[Tensor, "n c"], known: Float64[Tensor, "m c"]) -> Bool[Tensor, "n"]:
    """The rows that are near no known row."""
    if said.shape[1] == 0 or said.shape[1] != known.shape[1]:
        return torch.full(said.shape[:1], said.shape[1] > 0)
    # Sorting by the projection on a random direction puts equal rows side by side, and different
    # rows almost surely apart, so that each is compared with its neighbours and not with all.
    generator = torch.Generator().manual_seed(29)
    direction = torch.randn(said.shape[1], generator=generator, dtype=torch.float64).to(said)
    projected, order = (known @ direction).sort()
    after = torch.searchsorted(projected, said @ direction)
    nearest = [
        (known[order[neighbour.clamp(0, len(known) - 1)]] - said).abs().amax(dim=-1)
        for neighbour in (after - 1, after)
    ]
    return torch.minimum(*nearest) > NEAR * known.abs().max().clamp(min=1)


def _reached(encoding: Encoding, length: int, causal: bool) -> tuple[Reached, int]:
    """Which entries of its parameters an input of this length reads, and the largest distance."""
    trainable = copy.deepcopy(encoding).cpu().double().requires_grad_(True)
    distance = length - 1
    read = torch.zeros((), dtype=torch.float64)
    generator = torch.Generator().manual_seed(23)

    def draw(*shape: int) -> Tensor:
        # Positive, so that queries and keys agree and counts of content reach as far as they can.
        return 0.1 + torch.rand(shape, generator=generator, dtype=torch.float64)

    if embeds(trainable):
        x = draw(1, length, sizes_for(trainable).model_dim)
        for layer in range(getattr(trainable, "layers", 1) if trainable.tags.every_layer else 1):
            out = trainable.embed(x, Positions.build(length), layer=layer)
            read = read + (out * draw(*out.shape)).sum()
    if not embeds_only(trainable):
        positions = _some_queries(length, causal or trainable.tags.causal_only)
        context = context_for(trainable, length, batch=1)
        lowered = lower(trainable, positions, context=context, dtype=torch.float64)
        sizes = sizes_for(trainable)
        q, k, v = (
            draw(1, sizes.heads, n, sizes.head_dim) for n in (positions.q_len, length, length)
        )
        score = scores_of(q, k, lowered, 1.0)
        seen = score > -torch.inf
        even = seen.double() / seen.sum(dim=-1, keepdim=True).clamp(min=1)
        out = output_of(even, v, lowered)
        read = read + (score.masked_fill(~seen, 0.0) * draw(*score.shape)).sum()
        read = read + (out * draw(*out.shape)).sum()
        distance = int(positions.distance().abs().where(seen, 0).max())
    named = dict(trainable.named_parameters())
    if not named or not read.requires_grad:
        return {name: torch.zeros_like(p, dtype=torch.bool) for name, p in named.items()}, distance
    gradients = torch.autograd.grad(read, list(named.values()), materialize_grads=True)
    return {n: g != 0 for n, g in zip(named, gradients, strict=True)}, distance


def _some_queries(length: int, causal: bool) -> Positions:
    """The last token as query, the one in the middle, the one at a quarter, and so on to 0.

    Together they see every distance, and memory stays near linear.
    """
    queries = [length - 1]
    while queries[-1]:
        queries.append(queries[-1] // 2)
    q = torch.tensor(queries[::-1])
    return Positions(Tokens(q, q), Tokens(torch.arange(length)), causal, unit_step=True)


def _where(mask: Bool[Tensor, "*shape"]) -> str:
    """Which entries of a parameter a mask holds: rows of one dimension where it is as simple."""
    for dim, size in enumerate(mask.shape):
        lines = mask.movedim(dim, 0).reshape(size, -1)
        if bool((lines.all(dim=-1) | ~lines.any(dim=-1)).all()) and mask.ndim:
            rows = lines[:, 0].nonzero().flatten().tolist()
            if len(rows) < size:
                return f", {len(rows)} of {size} rows ({', '.join(ranges(rows))})"
    return f", {int(mask.sum())} of {mask.numel()} numbers"
