"""Layers that share lowered terms launch Triton's kernels as the layer before; no GPU is needed."""

import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import posenc as pe
from posenc import terms as t
from posenc.backends import triton
from tests.support.fake_gpu import MARKS, FakeGPU, fake_gpu

pytestmark = MARKS
# Heads of a width that no other test compiles kernels for.
HEADS, TOKENS, DIM = 2, 40, 64
LAST, LOG2_E = "_triton", math.log2(math.e)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGPU]:
    monkeypatch.setattr(triton, "device_type", lambda _: "cuda")
    with fake_gpu() as gpu:
        yield gpu


def drawn(tokens: int = TOKENS, learns: bool = False, dim: int = DIM) -> Tensor:
    return torch.zeros(1, HEADS, tokens, dim, dtype=torch.bfloat16, requires_grad=learns)


def lowered_for(encoding: Any) -> pe.Lowered:
    with torch.no_grad():
        return pe.lower(encoding, pe.Positions.build(TOKENS, TOKENS, causal=True))


def attended(lowered: pe.Lowered, x: list[Tensor], scale: float | None = None) -> Tensor:
    q, k, v = x
    return pe.attend(q, k, v, lowered, backend="triton", scale=scale)


def bound(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels whose arguments Triton binds, one name for each time."""
    from triton.runtime.jit import JITFunction

    from posenc.triton.decoding import combine_kernel, decode_kernel
    from posenc.triton.launches import forward_kernel, key_kernel, query_kernel
    from posenc.triton.table_gradient import table_kernel

    run, told = JITFunction.run, list[str]()
    kernels = forward_kernel, query_kernel, key_kernel, decode_kernel, combine_kernel, table_kernel
    # What other tests left.
    for kernel in kernels:
        kernel.__dict__.pop("_compiled_for", None)

    def noted(self: Any, *args: Any, **settings: Any) -> Any:
        told.append(self.__name__)
        return run(self, *args, **settings)

    monkeypatch.setattr(JITFunction, "run", noted)
    return told


ENCODINGS: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "alibi": lambda: pe.ALiBi(HEADS),
    "t5": lambda: pe.T5Bias(HEADS),
    "a sink": lambda: t.SinkLogit(torch.zeros(HEADS)),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_triton_binds_arguments_once(
    name: str, gpu: FakeGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second layer is launched with the same arguments but for its own tensors."""
    lowered, told = lowered_for(ENCODINGS[name]()), bound(monkeypatch)
    layers = [[drawn() for _ in range(3)] for _ in range(3)]
    with torch.no_grad():
        outs = [attended(lowered, layer) for layer in layers]
    assert told == ["forward_kernel"]
    first, *others = gpu.launches
    assert len(others) == 2
    own = "q", "k", "v", "out", "lse"
    for launch, layer, out in zip(others, layers[1:], outs[1:], strict=True):
        assert launch.grid == first.grid
        assert [launch.arguments[x] for x in own[:4]] == [x.data_ptr() for x in (*layer, out)]
        for name, before in first.arguments.items():
            now = launch.arguments[name]
            if not isinstance(before, Tensor):
                assert now == before, name
            elif name not in own:
                # What is not read has no address.
                assert now in (0, before.data_ptr()), name


def test_a_backward_pass_is_two_launches_bound_once(
    gpu: FakeGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered, told = lowered_for(pe.ALiBi(HEADS)), bound(monkeypatch)
    for _ in range(3):
        x = [drawn(learns=True) for _ in range(3)]
        grads = torch.autograd.grad(attended(lowered, x), x, drawn())
        backward = gpu.launches[-1].arguments
        if not isinstance(backward["dk"], Tensor):
            assert [backward[name] for name in ("dk", "dv")] == [x.data_ptr() for x in grads[1:]]
    kernels = ["forward_kernel", "query_kernel", "key_kernel"]
    assert told == kernels
    assert [launch.name for launch in gpu.launches] == kernels * 3


def test_a_table_that_learns_is_bound_once_too(
    gpu: FakeGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions, told = pe.Positions.build(TOKENS, TOKENS, causal=True), bound(monkeypatch)
    values = torch.zeros(HEADS, 9, requires_grad=True)
    lowered = pe.lower(t.DistanceTable(values, 8, saturates=True), positions)
    for _ in range(3):
        x = [drawn(learns=True) for _ in range(3)]
        out = attended(lowered, x)
        with torch.profiler.profile() as backward:
            *_, of_values = torch.autograd.grad(out, [*x, values], drawn())
        assert (of_values.shape, of_values.dtype) == (values.shape, values.dtype)
    kernels = ["forward_kernel", "query_kernel", "key_kernel", "table_kernel"]
    assert told == kernels
    assert [launch.name for launch in gpu.launches] == kernels * 3
    # Those of tiles and those beyond, each added up once.
    assert computed(backward)["aten::sum"] == 2
    assert lowered.form.__dict__[LAST][1].rest[0].grad_fn is None


@pytest.mark.parametrize("keys", [100, 30_000])
@pytest.mark.parametrize("name", ENCODINGS)
def test_a_step_of_decoding_is_bound_once_for_all_layers(
    name: str, keys: int, gpu: FakeGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = bound(monkeypatch)
    with torch.no_grad():
        lowered = pe.lower(ENCODINGS[name](), pe.Positions.build(1, keys, causal=True))
        for _ in range(3):
            attended(lowered, [drawn(1), drawn(keys), drawn(keys)])
    kernels = ["decode_kernel", "combine_kernel"] if keys > 100 else ["decode_kernel"]
    assert told == kernels
    assert [launch.name for launch in gpu.launches] == kernels * 3
    assert len({launch.grid for launch in gpu.launches}) == len(kernels)


def test_torch_makes_what_is_written_and_nothing_else(gpu: FakeGPU) -> None:
    lowered, g = lowered_for(pe.T5Bias(HEADS)), drawn()
    x = [drawn(learns=True) for _ in range(3)]
    torch.autograd.grad(attended(lowered, x), x, g)
    with torch.profiler.profile() as forward:
        out = attended(lowered, x)
    with torch.profiler.profile() as backward:
        torch.autograd.grad(out, x, g)
    made = {"aten::new_empty": 2, "aten::empty": 2}
    assert computed(forward) == made
    made = {"aten::empty_like": 4, "aten::empty_strided": 4}
    assert computed(backward) == made


def computed(profile: torch.profiler.profile) -> dict[str, int]:
    """How often each operator of torch ran."""
    names = [x.name for x in profile.events() or ()]
    return dict(Counter(name for name in names if name.startswith("aten::")))


@pytest.mark.parametrize(
    ("other", "times"),
    [("nothing", 1), ("address", 2), ("strides", 1), ("length", 1), ("dtype", 2), ("width", 2)],
)
def test_triton_is_asked_again_where_it_may_compile_anew(
    other: str, times: int, gpu: FakeGPU, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another layer, whose terms were lowered for it alone, is told what is its own."""
    told, x = bound(monkeypatch), [drawn() for _ in range(3)]
    tokens = TOKENS
    with torch.no_grad():
        attended(lowered_for(pe.ALiBi(HEADS)), x)
        if other == "address":
            x[1] = torch.zeros(x[1].numel() + 1, dtype=x[1].dtype)[1:].view_as(x[1])
        elif other == "strides":
            x[2] = drawn(dim=DIM * 2)[..., :DIM]
        elif other == "length":
            tokens = TOKENS + 16
            x = [drawn(tokens) for _ in x]
        elif other == "dtype":
            x = [one.half() for one in x]
        elif other == "width":
            x = [drawn(dim=DIM + 1) for one in x]
        positions = pe.Positions.build(tokens, tokens, causal=True)
        out = attended(pe.lower(pe.ALiBi(HEADS), positions), x)
    assert told == ["forward_kernel"] * times
    launch = gpu.launches[-1]
    last = launch.arguments
    for name, one in zip(("q", "k", "v", "out"), (*x, out), strict=True):
        assert last[name] is one or last[name] == one.data_ptr()
    assert [last[name] for name in ("qt", "kt", "vt", "ot")] == [y.stride(2) for y in (*x, out)]
    assert last["q_len"] == last["k_len"] == tokens
    wanted = [str(one.dtype).removeprefix("torch.") for one in x]
    short = {"bfloat16": "*bf16", "float16": "*fp16"}
    assert [launch.compiled.src.signature[name] for name in "qkv"] == [short[w] for w in wanted]


@pytest.mark.parametrize("other", ["strides", "length", "scale", "table"])
def test_a_layer_that_differs_is_told_what_is_its_own(other: str, gpu: FakeGPU) -> None:
    values = torch.zeros(1, 9)
    lowered, scale = lowered_for(t.DistanceTable(values, 4, saturates=True)), 0.25
    x = [drawn() for _ in range(3)]
    with torch.no_grad():
        attended(lowered, x, scale)
        if other == "strides":
            x[2] = drawn(dim=DIM * 2)[..., :DIM]
        elif other == "length":
            x = [torch.cat((one, one)) for one in x]
        elif other == "scale":
            scale = 0.5
        else:
            values.add_(1.0)
        attended(lowered, x, scale)
    first, last = gpu.launches
    strides = [last.arguments[name] for name in ("vb", "vh", "vt", "vd")]
    assert strides == list(x[2].stride())
    assert last.arguments["scale"] == scale * LOG2_E
    assert last.grid[0] == first.grid[0] * len(x[0])
    same = first.arguments["table"] is last.arguments["table"]
    assert not same or other != "table"


def test_a_table_written_to_before_the_backward_pass_is_refused(gpu: FakeGPU) -> None:
    values = torch.zeros(1, 9)
    lowered, x = lowered_for(t.DistanceTable(values, 4, saturates=True)), drawn(learns=True)
    for _ in range(2):
        out = attended(lowered, [x, x, x])
        values.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(out, x, drawn())


def test_parameters_are_tensors_too(gpu: FakeGPU) -> None:
    table = t.DistanceTable(torch.nn.Parameter(torch.zeros(1, 9)), 4, saturates=True)
    with torch.no_grad():
        lowered = pe.lower(table, pe.Positions.build(1, 8, causal=True))
        x = [torch.nn.Parameter(drawn(count)) for count in (1, 8, 8)]
        for _ in range(3):
            attended(lowered, [*x])
    told = [launch.arguments["table"] for launch in gpu.launches]
    assert told[1] == told[2] == table.values.data_ptr()


def test_nothing_of_a_layer_is_kept(gpu: FakeGPU) -> None:
    lowered, x = lowered_for(pe.ALiBi(HEADS)), [drawn(learns=True) for _ in range(3)]
    torch.autograd.grad(attended(lowered, x), x, drawn())
    assert lowered.form.__dict__[LAST]
    known = [weakref.ref(one) for one in x]
    gpu.launches.clear()
    del x
    assert all(one() is None for one in known)
