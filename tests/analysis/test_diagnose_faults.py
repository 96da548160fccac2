"""diagnose is tried against every fault that tests/support/faults plants in posenc."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc.analysis.diagnose import diagnose
from posenc.analysis.diagnosis.computation import Kind
from posenc.analysis.probe_context import context_for, sizes_for
from posenc.encoding import Encoding
from posenc.errors import PosencError
from posenc.mask_rules import Sink, Window
from posenc.terms import Mask
from posenc.testing.fixtures import attends, copy_of, qkv, scattered
from tests.support.fault_causes import CAUSES, UNSEEN
from tests.support.faults import CLAIMS, FAULTS, Fault, plant

pytestmark = pytest.mark.long


T, SHORT = 13, 4


# What rounding of float64 may do to these numbers, with much to spare.
NEARLY = 1e-10


def padded() -> pe.Positions:
    mask = torch.ones(2, T, dtype=torch.bool)
    mask[1, :4] = False
    return pe.Positions.build(attention_mask=mask, causal=True)


def packed() -> pe.Positions:
    return pe.Positions.build(lengths=[4, 9], causal=True)


def at(ids: Tensor) -> pe.Positions:
    return pe.Positions.build(ids=ids, causal=True)


# The first of these scenes that shows a fault is the one that is diagnosed.
SCENES: dict[str, Callable[[Encoding], pe.Positions]] = {
    "plain": lambda _: pe.Positions.build(T, causal=True),
    "open": lambda _: pe.Positions.build(T),
    "short": lambda _: pe.Positions.build(SHORT, T, causal=True),
    "padded": lambda _: padded(),
    "packed": lambda _: packed(),
    "masked": lambda _: packed(),
    "axes": lambda encoding: at(scattered(encoding.axes)[:, :T]),
    "tied": lambda _: at(torch.tensor([0, 2, 1, 3, 3, 5, 4, 6, 7, 9, 8, 10, 11])),
    "far": lambda _: at(torch.arange(T) + 1_000),
    "decoding": lambda _: pe.Positions.build(SHORT, T, causal=True),
}


MASKS = [Mask(Window(2)), Mask(Window(4)), Mask(Sink(1))]


def given(encoding: Encoding, scene: str) -> dict[str, Any]:
    """What a user of diagnose holds beside the results."""
    # What is kept of settings is by the code that was there: with a fault, or without.
    for part in encoding.modules():
        vars(part).pop("_settled", None)
    positions = SCENES[scene](encoding)
    if not attends(encoding):
        width, generator = sizes_for(encoding).model_dim, torch.Generator().manual_seed(1)
        x = torch.randn(2, positions.k_len, width, generator=generator, dtype=torch.float64)
        return {"encoding": encoding, "x": x, "positions": positions}
    q, k, v = qkv(encoding, positions.q_len, positions.k_len)
    parts = [encoding, *MASKS] if scene == "masked" else encoding
    context = context_for(encoding, positions.k_len)
    return {"encoding": parts, "q": q, "k": k, "v": v, "positions": positions, "context": context}


def results(encoding: Encoding, scene: str) -> dict[Kind, tuple[Tensor, ...]]:
    """Results of each kind; none where the scene is nothing for the encoding, or is refused."""
    if scene == "axes" and encoding.axes == 1:
        return {}
    held = given(encoding, scene)
    positions = held["positions"]
    if not attends(encoding):
        plain = scene in ("plain", "padded", "packed", "far")
        return {"embedded": (encoding.embed(held["x"].clone(), positions),)} if plain else {}
    # An overwritten input must not reach the other side.
    q, k, v = (held[name].clone() for name in "qkv")
    parts, options = held["encoding"], {"positions": positions, "context": held["context"]}
    if scene == "decoding":
        return {"output": (decoded(encoding, q, k, v, held["context"]),)}
    found: dict[Kind, tuple[Tensor, ...]] = {}
    if scene != "masked" and encoding.family == "rotary":
        # Two zones, or a factor on whole scores, are more than one rotation.
        with suppress(PosencError):
            found["turned"] = pe.rotate(q.clone(), k.clone(), parts, positions=positions)
    found["scores"] = (pe.scores(q.clone(), k.clone(), parts, **options),)
    found["output"] = (pe.attend(q, k, v, parts, **options),)
    return found


def decoded(
    encoding: Encoding, q: Tensor, k: Tensor, v: Tensor, context: pe.Context | None
) -> Tensor:
    """The last tokens, after a call with those before them, through a cache."""
    policy = "raw" if encoding.family == "content" or encoding.name == "xpos" else "rotated"
    cache, out = pe.Cache(policy), q
    for tokens in (slice(0, T - SHORT), slice(T - SHORT, T)):
        own = context
        if context is not None and context.x is not None:
            own = replace(context, x=context.x[:, tokens])
        new_k, new_v = k[:, :, tokens], v[:, :, tokens]
        queries = q if tokens.stop == T else new_k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        out = pe.attend(queries, new_k, new_v, encoding, causal=True, context=own, cache=cache)
    return out


def shown(encoding: Encoding, scene: str) -> dict[Kind, tuple[Tensor, ...]]:
    try:
        with torch.no_grad():
            return results(encoding, scene)
    except (PosencError, RuntimeError, ValueError):
        return {}


def first_difference(
    kind: Kind, ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...], scene: str
) -> tuple[str, int, int, int, int] | None:
    """By plain search: the least token, then tensor, dimension, batch row and head.

    What is computed for padding means nothing.
    """
    real = padded().keys.valid if scene == "padded" and kind != "embedded" else None
    names = {"turned": ("q", "k"), "embedded": ("embeddings",)}.get(kind, (kind,))
    places = []
    for number, (one, two) in enumerate(zip(ours, theirs, strict=True)):
        for batch, *head, token, dim in ((one - two).abs() > NEARLY).nonzero().tolist():
            if real is None or real[batch, token]:
                places.append((token, number, dim, batch, *(head or [0])))
    if not places:
        return None
    token, number, dim, batch, head = min(places)
    return names[number], batch, head, token, dim


def seen(
    fault: Fault, encoding: Encoding, scene: str, monkeypatch: pytest.MonkeyPatch
) -> dict[Kind, tuple]:
    """Results of a scene without and with the fault, of each kind that differs."""
    right = shown(encoding, scene)
    with monkeypatch.context() as planted:
        plant(fault, planted)
        wrong = shown(encoding, scene)
    both = {kind: (right[kind], wrong[kind]) for kind in right if kind in wrong}
    return {kind: pair for kind, pair in both.items() if first_difference(kind, *pair, scene)}


# All that are planted in the code, and what encodings claim wrongly where that changes a number.
DIAGNOSED = [*FAULTS, *(fault for fault in CLAIMS if fault.name in CAUSES)]


def test_every_fault_has_an_entry() -> None:
    listed = {*CAUSES, *(name for names in UNSEEN.values() for name in names)}
    assert listed == {fault.name for fault in DIAGNOSED}


@pytest.mark.parametrize("fault", DIAGNOSED, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found_and_named(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    encoding = copy_of(fault.encoding())
    scenes = ((scene, seen(fault, encoding, scene, monkeypatch)) for scene in SCENES)
    scene, differing = next(((scene, found) for scene, found in scenes if found), (None, {}))
    if fault.name not in CAUSES:
        assert scene is None, f"{fault.name} changes {list(differing)} in the scene {scene!r}"
        return
    assert scene is not None, f"{fault.name} changes no number: list it as unseen, with the reason"
    causes = CAUSES[fault.name]
    # What stays unknown takes longest, and is no better known of another kind of result.
    kinds = list(differing)[:1] if causes == "unknown" else list(differing)
    for kind in kinds:
        ours, theirs = differing[kind]
        cause = causes if isinstance(causes, str) else causes[kind]
        found = diagnose(ours, theirs, kind=kind, **given(encoding, scene))
        assert found.first == first_difference(kind, ours, theirs, scene), found
        # A cause that is outside what is looked for may come to be named, but never wrongly: the
        # computation with it must give the whole of theirs.
        if cause == "unknown" and found.cause != "unknown":
            assert found.candidates[0].fits, found
        else:
            assert found.cause == cause, found
        assert found.error > found.allowed


def test_what_is_looked_for_is_tried_in_earnest() -> None:
    """Every kind of cause that diagnose promises to know is that of some planted fault."""
    wanted = {
        "layout",
        "sign of the angle",
        "sign of one sine",
        "row of a table",
        "frequencies of a partial width",
        "scale placement",
        "precision of positions",
        "start of positions",
    }
    assert wanted <= {cause for cause in CAUSES.values() if isinstance(cause, str)}
