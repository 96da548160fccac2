"""What fully_shard cuts of a Transformer and what it leaves whole, and blocks computed twice."""

from functools import partial

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

from posenc.lab.model import encoding_parameters
from posenc.model import Transformer


def shard(model: Transformer, mesh: DeviceMesh, low: bool) -> None:
    """Cut the weights of each block, and of the rest, over the processes of a mesh.

    Encodings stay whole, in float32: they are read outside of any forward, where nothing gathers
    them, a slope that is rounded to bfloat16 is another encoding, and some have a single number,
    which cannot be cut. They have few. Whoever trains them joins their gradients.

    `low` gathers the matrices of blocks in bfloat16 and computes with these as autocast does.
    Norms, which autocast leaves in float32, are left whole, too. Where an encoding reads weights of
    its layer, to make a table of them, blocks are gathered in float32.
    """
    whole = set(encoding_parameters(model))
    parts = [part for layer in range(len(model.blocks)) for part in model.encodings_of(layer)]
    gathers_low = low and not any(part.tags.needs_context for part in parts)
    if gathers_low:
        norms = [module for module in model.blocks.modules() if isinstance(module, nn.LayerNorm)]
        whole |= {parameter for norm in norms for parameter in norm.parameters()}
    for parameter in whole:
        parameter.data = parameter.data.to(mesh.device_type)
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if gathers_low else None,
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,
    )
    for block in model.blocks:
        if gathers_low:
            # Tests within training are outside of the step's autocast.
            low_precision = torch.autocast(mesh.device_type, torch.bfloat16)
            block.forward = low_precision(block.forward)
        fully_shard(block, mesh=mesh, mp_policy=policy, ignored_params=whole)
    fully_shard(model, mesh=mesh, ignored_params=whole)


def recompute(model: Transformer) -> None:
    """Keep no activations of blocks: compute them again in the backward pass."""
    for block in model.blocks:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
