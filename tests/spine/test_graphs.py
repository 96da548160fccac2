"""Whole models as graphs: torch.compile, torch.export and ONNX, at lengths not traced at."""

import inspect
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils import _pytree as pytree

import posenc as pe
from posenc import Cache, Positions, Transformer
from posenc.encodings import members

# The shape checks of the other tests wrap functions, which dynamo cannot trace.
pytestmark = pytest.mark.graph

# One of each family, with what composes; the check suite compiles every encoding by itself.
FAMILIES = {
    "absolute": lambda: pe.Learned(32, max_length=64),
    "absolute, beside": lambda: pe.Sinusoidal(8, merge="concat"),
    "rotary": lambda: [pe.Rotary(8, rotary_dim=4), pe.SlidingWindow(4), pe.Sinks(1)],
    "bias": lambda: pe.T5Bias(4, buckets=8, max_distance=20),
    "content": lambda: [pe.Rotary(8), pe.Shaw(8, clip=3)],
}
SHAPES = [(2, 9), (1, 2), (3, 31)]


def built(encoding: object, depth: int = 2) -> Transformer:
    torch.manual_seed(0)
    return Transformer(13, 32, depth, 4, encoding, kv_heads=2).eval()


def tokens_of(batch: int, length: int) -> Tensor:
    return torch.randint(13, (batch, length), generator=torch.Generator().manual_seed(length))


def opened(x: Any) -> Any:
    """The same, with tensors marked as (batch, length) of any size: numbers stay constants."""
    for leaf in pytree.tree_leaves(x):
        if isinstance(leaf, Tensor):
            torch._dynamo.mark_dynamic(leaf, (0, 1))
    return x


def dynamic(least: int = 2) -> dict[int, object]:
    return {0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("length", min=least, max=64)}


def padded(batch: int, length: int) -> Positions:
    mask = torch.ones(batch, length)
    mask[0, : length // 3] = 0
    return Positions.build(attention_mask=mask, causal=True)


@pytest.fixture(autouse=True)
def forget_graphs() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("family", FAMILIES)
def test_one_compiled_graph_serves_every_length(family: str) -> None:
    model = built(FAMILIES[family]())
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    for batch, length in ((2, 9), (3, 31), (4, 17)):
        tokens = opened(tokens_of(batch, length))
        torch.testing.assert_close(compiled(tokens), model(tokens), rtol=1e-5, atol=1e-5)
        gradients = [
            torch.autograd.grad(run(tokens).square().sum(), list(model.parameters()))
            for run in (compiled, model)
        ]
        for got, wanted in zip(*gradients, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-3)
    assert counter.frame_count == 1


def test_compiled_models_take_positions() -> None:
    model = built([pe.Rotary(8), pe.T5Bias(4)])
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    for batch, length in ((2, 9), (3, 31), (4, 17)):
        tokens, positions = opened((tokens_of(batch, length), padded(batch, length)))
        expected = model(tokens, positions)
        torch.testing.assert_close(compiled(tokens, positions), expected, rtol=1e-5, atol=1e-5)
    assert counter.frame_count == 1


@pytest.mark.parametrize("policy", ["rotated", "raw"])
@pytest.mark.parametrize("family", ["absolute", "rotary", "bias", "content"])
def test_compiled_decoding_equals_the_full_forward(family: str, policy: str) -> None:
    model, tokens = built(FAMILIES[family]()), tokens_of(2, 12)
    expected = model(tokens)
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    caches = [Cache(policy) for _ in range(2)]
    with torch.no_grad():
        steps = [model(tokens[:, :4], caches=caches)]
        steps += [compiled(tokens[:, at : at + 1], caches=caches) for at in range(4, 12)]
    torch.testing.assert_close(torch.cat(steps, dim=1), expected, rtol=1e-5, atol=1e-5)
    # The first step may be traced with lengths that turn out to grow, torch 2.7's second one too.
    assert counter.frame_count <= (2 if torch.__version__ >= (2, 8) else 3)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_exported_program_keeps_its_length_open(family: str) -> None:
    model = built(FAMILIES[family]())
    program = torch.export.export(model, (tokens_of(2, 9),), dynamic_shapes=(dynamic(),))
    kept = io.BytesIO()
    torch.export.save(program, kept)
    kept.seek(0)
    loaded = torch.export.load(kept).module()
    for shape in SHAPES:
        tokens = tokens_of(*shape)
        torch.testing.assert_close(loaded(tokens), model(tokens), rtol=1e-5, atol=1e-5)


def test_an_exported_program_takes_positions() -> None:
    model, sizes = built([pe.Rotary(8), pe.T5Bias(4)]), dynamic()
    # One entry per field that is told, of Positions and of its sides; what is no tensor is a
    # constant: causal, unit_step and start.
    positions = padded(2, 9)
    sides = [
        [sizes if isinstance(x, Tensor) else None for x in pytree.tree_leaves(side)]
        for side in (positions.queries, positions.keys)
    ]
    shapes = {"tokens": sizes, "positions": [*sides, None, None, None]}
    program = torch.export.export(model, (tokens_of(2, 9), padded(2, 9)), dynamic_shapes=shapes)
    # torch 2.13 writes its guards as text and takes the name of a field for a part of another.
    unguarded = "check_guards" in inspect.signature(program.module).parameters
    module = program.module(check_guards=False) if unguarded else program.module()
    for batch, length in SHAPES:
        tokens, positions = tokens_of(batch, length), padded(batch, length)
        expected = model(tokens, positions)
        torch.testing.assert_close(module(tokens, positions), expected, rtol=1e-5, atol=1e-5)


class Masked(nn.Module):
    """Builds its positions inside the graph, where nothing may be asked of a tensor's values."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, mask: Tensor, documents: Tensor) -> Tensor:
        positions = Positions.build(attention_mask=mask, documents=documents, causal=True)
        return self.model(tokens, positions)


def test_positions_may_be_built_inside_a_graph() -> None:
    masked = Masked(built([pe.Rotary(8), pe.T5Bias(4), pe.SlidingWindow(5)]))

    def inputs(batch: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
        mask = torch.ones(batch, length)
        mask[-1, -1] = 0
        documents = (torch.arange(length) > length // 2).long().expand(batch, -1).contiguous()
        return tokens_of(batch, length), mask, documents

    # Two neighbours are compared, and a dimension of one is a case of its own.
    program = torch.export.export(masked, inputs(2, 9), dynamic_shapes=(dynamic(least=3),) * 3)
    program = program.module()
    compiled = torch.compile(masked, fullgraph=True, backend="aot_eager")
    for shape in ((2, 9), (3, 31), (1, 3)):
        given = inputs(*shape)
        for run in (program, compiled):
            torch.testing.assert_close(run(*given), masked(*given), rtol=1e-5, atol=1e-5)


class Beside(nn.Module):
    """Models of the same tokens as one graph, which takes less time than a graph of each."""

    def __init__(self, models: list[Transformer]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, tokens: Tensor) -> list[Tensor]:
        return [model(tokens) for model in self.models]


EXPORTED = [member for member in members().values() if member.tags.exports is True]
# ONNX has no operator that solves triangular equations, by which blocks of reflections are joined,
# and onnxruntime no arctangent of its newer operator sets, which gives FoPE's phases. Nor has it
# one for exponentials of matrices and for linear equations.
_NOT_IN_ONNX = (pe.PaTH, pe.FoPE, pe.LieRE, pe.CayleySTRING)
IN_ONNX = [member for member in EXPORTED if member not in _NOT_IN_ONNX]


@pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.*:FutureWarning")
@pytest.mark.newer
@pytest.mark.long
@pytest.mark.parametrize("family", sorted({member.family for member in IN_ONNX}))
def test_onnx_runs_at_other_lengths(family: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    sizes = {"model_dim": 32, "heads": 4, "head_dim": 8, "max_length": 64, "train_length": 9}
    of_family = [member for member in IN_ONNX if member.family == family]
    # A second layer would double the time, and say what the first has said.
    models = [built(member.for_model(**sizes, causal=True), depth=1) for member in of_family]
    path = tmp_path / "models.onnx"
    torch.onnx.export(
        Beside(models).eval(),
        (tokens_of(2, 9),),
        path,
        opset_version=23,
        dynamic_shapes=(dynamic(),),
        dynamo=True,
        verbose=False,
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    for shape in SHAPES:
        tokens = tokens_of(*shape)
        results = session.run(None, {given.name: tokens.numpy()})
        for member, model, actual in zip(of_family, models, results, strict=True):
            expected = model(tokens).detach().numpy()
            assert np.abs(actual - expected).max() <= 1e-4, member.name
