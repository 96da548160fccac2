"""The same small decoder three ways: plain torch without position, posenc, x-transformers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import posenc as pe

# What x-transformers calls each encoding: settings of its wrapper, settings of its layers.
PEERS: dict[str, tuple[dict[str, bool], dict[str, bool]]] = {
    "none": ({"use_abs_pos_emb": False}, {}),
    "learned": ({"use_abs_pos_emb": True}, {}),
    "sinusoidal": ({"use_abs_pos_emb": True, "scaled_sinu_pos_emb": True}, {}),
    "rotary": ({"use_abs_pos_emb": False}, {"rotary_pos_emb": True}),
    "alibi": ({"use_abs_pos_emb": False}, {"alibi_pos_bias": True}),
    "t5": ({"use_abs_pos_emb": False}, {"rel_pos_bias": True}),
}


@dataclass(frozen=True)
class Shape:
    """Sizes of one training step."""

    dim: int
    depth: int
    heads: int
    length: int
    batch: int
    vocabulary: int = 256

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads


Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def no_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """As little as may stand in its place, if all three are to have a gradient."""
    return q + k + v


class PlainBlock(nn.Module):
    def __init__(self, shape: Shape, attend: Attend) -> None:
        super().__init__()
        dim = shape.dim
        self.heads, self.attend = shape.heads, attend
        self.attention_norm, self.mlp_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query, self.key, self.value, self.out = (
            nn.Linear(dim, dim, bias=False) for _ in range(4)
        )
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        y = self.attention_norm(x)
        q, k, v = (
            project(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        y = self.attend(q, k, v)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class Plain(nn.Module):
    """What torch alone does, without any position: the floor of every encoding."""

    def __init__(self, shape: Shape, attend: Attend = sdpa) -> None:
        super().__init__()
        self.token = nn.Embedding(shape.vocabulary, shape.dim)
        self.blocks = nn.Sequential(*(PlainBlock(shape, attend) for _ in range(shape.depth)))
        self.norm = nn.LayerNorm(shape.dim)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.blocks(self.token(tokens) * self.token.embedding_dim**0.5)
        return F.linear(self.norm(x), self.token.weight)


def ours(name: str, shape: Shape) -> nn.Module:
    encoding = pe.make(
        name, model_dim=shape.dim, heads=shape.heads, max_length=shape.length, causal=True
    )
    return pe.Transformer(shape.vocabulary, shape.dim, shape.depth, shape.heads, encoding)


def peer(name: str, shape: Shape) -> nn.Module:
    """x-transformers with the same shape, through SDPA wherever it allows that."""
    from x_transformers import Decoder, TransformerWrapper

    for_wrapper, for_layers = PEERS[name]
    layers: dict[str, Any] = {
        "dim": shape.dim,
        "depth": shape.depth,
        "heads": shape.heads,
        "attn_dim_head": shape.head_dim,
        # x-transformers rotates half of the head by default, and refuses SDPA beside a T5 bias.
        "rotary_emb_dim": shape.head_dim,
        "attn_flash": name != "t5",
        **for_layers,
    }
    wrapper: dict[str, Any] = {
        "num_tokens": shape.vocabulary,
        "max_seq_len": shape.length,
        "tie_embedding": True,
        **for_wrapper,
    }
    return TransformerWrapper(attn_layers=Decoder(**layers), **wrapper)


def training_step(model: nn.Module, shape: Shape) -> Callable[[], None]:
    """A call that does what the lab's training step does: forward, loss, backward, AdamW."""
    generator = torch.Generator().manual_seed(0)
    size = (shape.batch, shape.length + 1)
    tokens = torch.randint(shape.vocabulary, size, generator=generator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        logits = model(tokens[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step
