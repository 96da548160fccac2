"""Peers that only a GPU has: SDPA by each of its kernels, and other people's."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import posenc as pe
from posenc.bench import attention_peers
from posenc.bench.attention_inputs import AttentionInputs
from posenc.bench.case import Call
from posenc.bench.rotary import RotationInputs
from posenc.terms import GatherTable, ValueTable

Maker = Callable[[AttentionInputs], Call]


def bare(backend: str) -> Maker:
    """posenc without a bias, through a backend by name."""

    def make(inputs: AttentionInputs) -> Call:
        positions = inputs.lowered.positions
        plain = pe.lower(None, positions)
        return inputs.run(lambda: pe.attend(inputs.q, inputs.k, inputs.v, plain, backend=backend))

    return make


def sdpa(kernel: str) -> Maker:
    """PyTorch's attention without a bias, by one of its kernels or none."""
    chosen = getattr(SDPBackend, kernel)

    def make(inputs: AttentionInputs) -> Call:
        setting = inputs.setting
        options = {
            "is_causal": setting.causal and setting.queries is None,
            "enable_gqa": setting.kv_heads != setting.heads,
        }

        def forward() -> Tensor:
            with sdpa_kernel(chosen):
                return F.scaled_dot_product_attention(inputs.q, inputs.k, inputs.v, **options)

        return inputs.run(forward)

    return make


def shaw_in_torch(inputs: AttentionInputs) -> Call:
    """Shaw's keys and values as plain tensor operations: products with all vectors, gathered."""
    setting = inputs.setting
    to_keys, to_values = inputs.lowered.terms
    assert isinstance(to_keys, GatherTable)
    assert isinstance(to_values, ValueTable)
    distance = inputs.lowered.positions.distance()[0, 0]
    index = (distance + to_keys.zero).clamp(0, to_keys.weight.shape[1] - 1)
    hidden = distance > 0 if setting.causal else None

    def forward() -> Tensor:
        q, k, v = inputs.q, inputs.k, inputs.v
        near = q @ to_keys.weight.to(q).mT
        where = index.expand(*q.shape[:2], -1, -1)
        scores = (q @ k.mT + near.gather(-1, where)) * setting.dim**-0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, float("-inf"))
        p = scores.softmax(-1)
        mass = near.new_zeros(near.shape).scatter_add(-1, where, p)
        return p @ v + mass @ to_values.weight.to(v)

    return inputs.run(forward, inputs.learned)


def read_keys_and_values(inputs: AttentionInputs) -> Call:
    """A copy that moves as many bytes as one query reads: half of them read, half written."""
    space = inputs.k.clone()
    return lambda: space.copy_(inputs.v)


def liger(inputs: RotationInputs) -> Call:
    """Liger's rotation of halves, cos and sin in the activations' dtype as its models have them."""
    from liger_kernel.ops.rope import LigerRopeFunction

    angle = inputs.angle.repeat(1, 2)[None]
    cos, sin = (wave.to(inputs.q.dtype) for wave in (angle.cos(), angle.sin()))
    # It writes into what it is given.
    return lambda: LigerRopeFunction.apply(inputs.q.clone(), inputs.k.clone(), cos, sin)


def flash_deberta(inputs: AttentionInputs) -> Call:
    """FlashDeBERTa's kernel, which makes the products with the tables itself."""
    from flashdeberta.ops.flash_attention import flash_attention_with_disentangled

    setting, (of_keys, of_queries) = inputs.setting, attention_peers.deberta_leaves(inputs)
    scale, buckets, farthest = (3 * setting.dim) ** -0.5, 256, 512
    return inputs.run(
        lambda: flash_attention_with_disentangled(
            inputs.q, inputs.k, inputs.v, None, of_keys[None], of_queries[None], setting.causal,
            scale, buckets, farthest,
        ),
        [of_keys, of_queries],
    )  # fmt: skip


def disentangled_flash(inputs: AttentionInputs) -> Call:
    """DisentangledFlash's kernels, with tiles that it chooses for cards unknown to it."""
    from disentangled_flash.position import SharedPositionPlanCache
    from disentangled_flash.training._kernels import training_attention
    from disentangled_flash.tuning import DeviceResources, heuristic_config

    setting, device = inputs.setting, inputs.q.device
    of_keys, of_queries = attention_peers.deberta_leaves(inputs)
    plans = SharedPositionPlanCache(
        position_buckets=256, max_relative_positions=512, position_embedding_size=256
    )
    plan = plans.compact(setting.length, device)
    assert len(plan.active_slots) == of_keys.shape[1]
    phases = {"forward_config": "training_forward", "dq_config": "backward_dq",
              "dkv_config": "backward_dkv"}  # fmt: skip
    resources = DeviceResources.current(device.index or 0)
    tiles = {
        name: heuristic_config(
            phase=phase, sequence_length=setting.length, head_dim=setting.dim,
            dtype=setting.dtype, batch_heads=setting.batch * setting.heads, resources=resources,
        )
        for name, phase in phases.items()
    }  # fmt: skip
    mask = torch.ones(setting.batch, setting.length, dtype=torch.bool)

    def forward() -> Tensor:
        out = training_attention(
            inputs.q, inputs.k, inputs.v, of_keys, of_queries, plan.delta_to_local, mask,
            score_scale=(3 * setting.dim) ** -0.5, has_padding=False, strict_fp32=True,
            gradient_band=plan.gradient_band, **tiles,
        )  # fmt: skip
        return out.unflatten(-1, (setting.heads, -1)).transpose(1, 2) if out.dim() == 3 else out

    return inputs.run(forward, [of_keys, of_queries])
