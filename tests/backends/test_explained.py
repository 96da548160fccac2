"""What `explain_backend` says of one query is what runs."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import posenc as pe
from posenc import attention, one_query
from posenc.backends import BACKENDS
from posenc.backends.backend import Call, NextLayer
from posenc.native import query
from posenc.terms import DenseBias
from posenc.testing.fixtures import Trial, attends

KEYS = 12
EXAMPLES = [
    pytest.param(example, id=f"{name} {number}")
    for name, kind in pe.encodings().items()
    for number, example in enumerate(kind.examples())
    if attends(example)
]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The backends whose kernels ran, by either way."""
    names: list[str] = []
    running: list[str] = []

    def telling(name: str, real: Any) -> Any:
        def run(*given: Any, **more: Any) -> Any:
            # A kernel that copies its inputs first calls itself.
            if not running:
                names.append(name)
            running.append(name)
            try:
                return real(*given, **more)
            finally:
                running.pop()

        return run

    def next_layer(name: str, call: Call) -> NextLayer | None:
        run = known[name].next_layer(call)
        return None if run is None else telling(name, run)

    known = dict(BACKENDS)
    for name, backend in known.items():
        attend = telling(name, backend.attend)
        other = replace(backend, attend=attend, next_layer=partial(next_layer, name))
        monkeypatch.setitem(BACKENDS, name, other)
    monkeypatch.setattr(query, "attend", telling("native", query.attend))
    sdpa = telling("sdpa", F.scaled_dot_product_attention)
    monkeypatch.setattr(one_query, "F", SimpleNamespace(scaled_dot_product_attention=sdpa))
    return names


@pytest.fixture(params=["native", "no kernels", "gradients"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "no kernels":
        monkeypatch.setattr(query, "LIBRARY", "switched off")
        monkeypatch.setattr("posenc.backends.native.LIBRARY", "switched off")
    with torch.set_grad_enabled(request.param == "gradients"):
        yield


def told(*call: Any, **more: Any) -> str:
    (taken,) = (x for x in pe.explain_backend(*call, **more).splitlines() if x.endswith(": taken"))
    return taken.removesuffix(": taken")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("encoding", EXAMPLES)
def test_of_every_encoding(encoding: pe.Encoding, dtype: torch.dtype, ran: list[str]) -> None:
    trial = Trial.of(encoding, 1, KEYS, dtype)
    positions = pe.Positions.build(1, KEYS, causal=True)
    lowered = pe.lower(trial.encoding, positions, context=trial.context)
    said = [
        told(*trial.qkv, trial.encoding, causal=True, context=trial.context),
        told(*trial.qkv, lowered),
    ]
    attention.attend(*trial.qkv, trial.encoding, causal=True, context=trial.context)
    attention.attend(*trial.qkv, lowered)
    assert said == ran
    # As the layer before.
    attention.attend(*trial.qkv, lowered)
    assert ran[2] == ran[1]


@pytest.mark.parametrize("encoding", EXAMPLES)
def test_of_every_encoding_with_a_cache(encoding: pe.Encoding, ran: list[str]) -> None:
    trial = Trial.of(encoding, KEYS, dtype=torch.float32)
    q, k, v = trial.qkv
    cache = pe.Cache("raw" if trial.encoding.tags.needs_context else "rotated", length=KEYS)
    for part in (slice(KEYS - 1), slice(KEYS - 1, None)):
        ran.clear()
        new = trial.context
        if new is not None and new.x is not None:
            new = replace(new, x=new.x[:, part], payload=None)
        step = q[:, :, part], k[:, :, part], v[:, :, part]
        try:
            attention.attend(*step, trial.encoding, causal=True, cache=cache, context=new)
        except pe.CacheError:
            cache = pe.Cache("raw", length=KEYS)
            attention.attend(*step, trial.encoding, causal=True, cache=cache, context=new)
    expected = told(q[:, :, -1:], k, v, trial.encoding, causal=True, context=trial.context)
    if isinstance(encoding, pe.SinkLogits) and query.LIBRARY == "switched off":
        # A step through a cache joins the sink to its keys, and no cache is told of here.
        expected = "sdpa"
    assert ran == [expected]


TERMS: dict[str, Any] = {
    "dense": lambda: DenseBias(torch.zeros(1, 4, 1, KEYS)),
    "bias of explicit positions": lambda: pe.T5Bias(4),
    "rotary and bias": lambda: [pe.Rotary(8), pe.ALiBi(4)],
    "vectors": lambda: pe.Shaw(8),
    "network": lambda: pe.FIRE(4, width=8),
}


@pytest.mark.parametrize("name", TERMS)
def test_of_terms_and_explicit_positions(name: str, ran: list[str]) -> None:
    q, k = torch.ones(1, 4, 1, 8), torch.ones(1, 2, KEYS, 8)
    encoding = TERMS[name]()
    positions = pe.Positions.build(1, KEYS, causal=True, ids=torch.arange(KEYS) ** 2)
    lowered = pe.lower(encoding, positions)
    calls: list[tuple[Any, dict[str, Any]]] = [
        (lowered, {}),
        (lowered, {"positions": positions}),
        (encoding, {"positions": positions}),
    ]
    said = [told(q, k, k, terms, **place) for terms, place in calls]
    for terms, place in calls:
        attention.attend(q, k, k, terms, **place)
    assert said == ran
