"""Checkpoints to convert, as the tests of files share them."""

from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

import posenc as pe


def llama(head_dim: int = 8, dtype: torch.dtype = torch.bfloat16) -> dict[str, Tensor]:
    """Four heads of queries, two of keys, their norms and a LoRA, among what does not rotate."""
    layer = "model.layers.0.self_attn"
    shapes = {
        "model.embed_tokens.weight": (11, 12),
        f"{layer}.q_proj.weight": (4 * head_dim, 12),
        f"{layer}.q_proj.bias": (4 * head_dim,),
        f"{layer}.k_proj.base_layer.weight": (2 * head_dim, 12),
        f"{layer}.k_proj.lora_A.default.weight": (3, 12),
        f"{layer}.k_proj.lora_B.default.weight": (2 * head_dim, 3),
        f"{layer}.v_proj.weight": (2 * head_dim, 12),
        f"{layer}.o_proj.weight": (12, 4 * head_dim),
        f"{layer}.q_norm.weight": (head_dim,),
        f"{layer}.k_norm.weight": (head_dim,),
        f"{layer}.q_proj.input_scale": (),
        f"{layer}.q_proj.weight_scale": (1,),
        "model.nothing": (0, 4),
    }
    torch.manual_seed(0)
    return {name: torch.randn(shape).to(dtype) for name, shape in shapes.items()}


ROTATED = {
    *("q_proj.weight", "q_proj.bias", "k_proj.base_layer.weight", "q_norm.weight"),
    *("k_proj.lora_B.default.weight", "k_norm.weight"),
}


def rotates(name: str) -> bool:
    return name.removeprefix("model.layers.0.self_attn.") in ROTATED


def bits(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)


def save(path: Path, tensors: dict[str, Tensor]) -> Path:
    path.parent.mkdir(exist_ok=True)
    safetensors.torch.save_file(tensors, path, {"format": "pt", "note": "kept"})
    return path


def convert(path: Path, out: Path, **options: Any) -> tuple[str, ...]:
    options = {"head_dim": 8, **options}
    return pe.convert_checkpoint(path, out, "half", "interleaved", **options)
