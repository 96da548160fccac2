"""A Transformer of which each of two processes has half of the heads."""

from collections.abc import Iterator

import pytest
import torch
from pair import Pair
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

import posenc as pe
from posenc.errors import ShapeError, UnsupportedError
from posenc.parallel.tensor_parallel import split_heads

pytestmark = pytest.mark.long
DIM, HEADS, LENGTH = 32, 4, 12
# With what each settles by itself for a model; and those that have a row for each head.
NAMES = sorted(set(pe.encodings()) - {"mrope", "axial"})
OTHERS = (
    "pe.ALiBi(4, future=2.0, learned=True)",
    "pe.LearnedRotary(8, heads=4)",
    "pe.CoPE(8, max_position=6, heads=4)",
)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    found = Pair()
    yield found
    found.close()


def of(name: str) -> pe.Encoding:
    if name.startswith("pe."):
        return eval(name)
    return pe.make(
        name, model_dim=DIM, heads=HEADS, max_length=LENGTH, train_length=LENGTH, causal=True
    )


def computed(name: str, kv_heads: int, ranks: int) -> dict[str, Tensor]:
    """The logits and every gradient, whole."""
    torch.manual_seed(0)
    encoding = of(name)
    # What begins at zero, or the same for all heads, would not be told apart.
    for parameter in encoding.parameters():
        parameter.data += 0.1 * torch.rand_like(parameter)
    model = pe.Transformer(11, DIM, 2, HEADS, encoding, kv_heads=kv_heads, max_length=LENGTH)
    if ranks > 1:
        split_heads(model, init_device_mesh("cpu", (ranks,)))
    tokens = torch.randint(11, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    logits = model(tokens)
    logits.square().mean().backward()
    gradients = {
        key: p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
        for key, p in model.named_parameters()
        if p.grad is not None
    }
    return {"logits": logits.detach()} | gradients


def all_computed(cases: list[tuple[str, int]]) -> list[dict[str, Tensor]]:
    return [computed(*case, ranks=2) for case in cases]


def test_halves_of_the_heads_make_the_whole(pair: Pair) -> None:
    cases = [(name, HEADS) for name in (*NAMES, *OTHERS)] + [("t5", 2)]
    ranks = pair(all_computed, cases)
    for index, case in enumerate(cases):
        whole = computed(*case, ranks=1)
        for found in ranks:
            torch.testing.assert_close(
                found[index], whole, rtol=1e-4, atol=1e-6, msg=lambda m, c=case: f"{c}: {m}"
            )


def all_refused() -> str:
    model = pe.Transformer(11, 30, 1, 3)
    try:
        split_heads(model, init_device_mesh("cpu", (2,)))
    except ShapeError as error:
        return str(error)
    return ""


def test_heads_that_ranks_do_not_divide(pair: Pair) -> None:
    assert "over 2 ranks: heads=3 is no multiple" in pair(all_refused)[0]


def decoded(name: str, ranks: int) -> Tensor | str:
    """The logits of a prompt and of two steps behind it, or why there are none."""
    torch.manual_seed(0)
    model = pe.Transformer(11, DIM, 2, HEADS, of(name), max_length=LENGTH)
    if ranks > 1:
        split_heads(model, init_device_mesh("cpu", (ranks,)))
    caches = [pe.Cache("raw") for _ in model.blocks]
    tokens = torch.randint(11, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        try:
            parts = [model(part, caches=caches) for part in tokens.split([LENGTH - 2, 1, 1], 1)]
        except UnsupportedError as error:
            return str(error)
    return torch.cat(parts, dim=1)


def all_decoded(names: list[str]) -> list[Tensor | str]:
    return [decoded(name, ranks=2) for name in names]


def test_decoding_with_half_of_the_heads(pair: Pair) -> None:
    names = ["t5", "rotary", "cope", "deberta", "learned"]
    for found in pair(all_decoded, names):
        for name, got in zip(names, found, strict=True):
            torch.testing.assert_close(got, decoded(name, ranks=1), rtol=1e-4, atol=1e-6)


def test_a_cache_that_would_have_to_keep_payloads(pair: Pair) -> None:
    for found in pair(all_decoded, ["forget_gate", "path", "cable"]):
        assert all("keeps a payload of every token" in told for told in found)
