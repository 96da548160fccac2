"""Which backend `auto` takes on a GPU, asked of tensors that say they are on one."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc import attention
from posenc import terms as t
from posenc.backends import backend, blocked, sdpa, triton

pytestmark = pytest.mark.skipif(not triton.INSTALLED, reason="needs Triton")


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (attention, backend, blocked, sdpa, triton):
        monkeypatch.setattr(module, "device_type", lambda _: "cuda")


def drawn(batch: int, heads: int, length: int, dim: int = 64) -> torch.Tensor:
    return torch.zeros(batch, heads, length, dim, dtype=torch.bfloat16)


def taken(encoding: Any, q_len: int = 2048, k_len: int | None = None, **call: Any) -> str:
    q, k = drawn(2, 8, q_len), drawn(2, 2, k_len or q_len)
    if "positions" not in call:
        call["causal"] = call.get("causal", True)
    return pe.explain_backend(q, k, k, encoding, **call).splitlines()[-1].removesuffix(": taken")


ENCODINGS: dict[str, Any] = {
    "t5": lambda: pe.T5Bias(8),
    "shaw": lambda: pe.Shaw(64, clip=64),
    "deberta": lambda: pe.DeBERTa(64, 8, head_dim=64, projections="own"),
    "transformer-xl": lambda: pe.TransformerXL(64, 8, 64),
}
BIASES: dict[str, Any] = {
    "alibi": lambda: pe.ALiBi(8),
    "t5": lambda: pe.T5Bias(8),
    "a sink": lambda: t.SinkLogit(torch.zeros(8)),
}


@pytest.mark.parametrize("lengths", [(1, 4096), (8, 4096), (2048, 2048), (16, 16)])
@pytest.mark.parametrize("kind", BIASES)
def test_functions_of_the_distance_and_decoding_go_to_triton(
    kind: str, lengths: tuple[int, int]
) -> None:
    assert taken(BIASES[kind](), *lengths) == "triton"


def test_forget_gates_go_to_triton() -> None:
    assert taken(t.Offset(torch.zeros(2, 8, 2048), torch.zeros(2, 8, 2048))) == "triton"


def test_a_rotation_goes_to_sdpa_until_sdpa_needs_a_mask() -> None:
    rotary = pe.Rotary(64)
    assert taken(rotary) == "sdpa"
    assert taken(rotary, 1, 4096, causal=False) == "sdpa"
    assert taken(rotary, 1, 4096) == "triton"
    assert taken(rotary, 100, 4096) == "triton"
    assert taken([rotary, t.Mask(t.Window(256))]) == "triton"
    assert taken([rotary, t.Mask(t.Chunk(256))]) == "triton"
    assert taken(rotary, return_lse=True) == "triton"
    documents = torch.arange(2048) // 300
    assert taken(rotary, positions=pe.Positions.build(documents=documents)) == "triton"
    mask = torch.ones(2, 2048, dtype=torch.bool)
    assert taken(rotary, positions=pe.Positions.build(attention_mask=mask)) == "triton"


def test_vectors_by_distance_go_to_triton_but_of_one_query() -> None:
    shaw, deberta = ENCODINGS["shaw"](), ENCODINGS["deberta"]()
    assert taken(shaw) == taken(deberta, causal=False) == "triton"
    assert taken(shaw, 1, 4096) == "blocked"
    # Of more distances than a band holds.
    assert taken(pe.Shaw(64, clip=4000, values=False), 8192) == "blocked"


def test_a_mask_that_is_small_for_a_gpu_is_no_reason_to_go_by_chunks() -> None:
    """As one of a million numbers is on a CPU: 16 rows of 8 heads of 512 tokens need 33."""
    told = []
    for batch, length in ((16, 512), (1, 8192)):
        q = drawn(batch, 8, length)
        own = t.GatherTable(torch.zeros(1, 9, 64), 4, "q", saturates=True, own=q)
        told.append(pe.explain_backend(q, q, q, own, causal=True))
    assert told[0].endswith("sdpa: taken")
    assert told[1].splitlines()[-2:] == [
        "sdpa: its mask would hold 536870912 numbers",
        "blocked: taken",
    ]


def test_kernels_of_cpus_are_not_asked() -> None:
    q = drawn(1, 8, 16)
    said = pe.explain_backend(q, q, q, pe.Rotary(64), causal=True).splitlines()
    assert [line.partition(":")[0] for line in said] == ["triton", "sdpa"]


def test_sdpa_does_not_round_what_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for GPUs read a mask in the dtype of q: 16 bits would round a bias of 8 by 0.03."""
    asked: list[Any] = []

    def attended(q: Any, k: Any, v: Any, attn_mask: Any, **_: Any) -> Any:
        asked.extend(x.dtype for x in (q, k, v, attn_mask))
        return v.new_zeros(*q.shape[:3], v.shape[-1])

    monkeypatch.setattr(sdpa.F, "scaled_dot_product_attention", attended)
    q = drawn(1, 8, 32)
    out = pe.attend(q, q, q, pe.ALiBi(8), causal=True, backend="sdpa")
    assert asked == [torch.float32] * 4
    assert out.dtype == torch.bfloat16
    asked.clear()
    pe.attend(q, q, q, t.Mask(t.Window(8)), causal=True, backend="sdpa")
    assert asked == [*[torch.bfloat16] * 3, torch.bool]


@pytest.mark.graph
@pytest.mark.parametrize(
    ("kind", "lengths"), [("t5", (1, 40)), *((kind, (40, 40)) for kind in ENCODINGS)]
)
def test_graphs_hold_the_kernels(kind: str, lengths: tuple[int, int]) -> None:
    """With tables and vectors that learn, and one query too."""
    q, k = drawn(1, 8, lengths[0]), drawn(1, 8, lengths[1])
    encoding, found = ENCODINGS[kind](), []

    def noted(graph: torch.fx.GraphModule, _: Any) -> Any:
        found.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        # Nothing here could run it.
        return lambda *_: (q,)

    def run(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return attention.attend(q, k, k, encoding, causal=True)

    torch.compile(run, backend=noted, fullgraph=True)(q, k)
    name = "triton_attend" if kind == "t5" else "triton_gather"
    assert any(name in told for told in found)
