"""Small, readable modules that use every kind of encoding the same way; the lab trains them.

Letters: b batch, t tokens, c model dimension, h heads, g key heads, d head dimension.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.attention import attend
from posenc.caches.cache import Cache
from posenc.caches.rollback import unchanged_on_error
from posenc.encoding import Context, Encoding
from posenc.encoding_lists import encodings_in, fitting, owned
from posenc.errors import PositionsError, SettingError, given, one_of, probability, whole
from posenc.lowering import Lowerable, Lowered, check_fits, embeds_only
from posenc.positions import Positions
from posenc.shared_terms import SharedTerms, check_caches

# What a layer may be given.
Given = Encoding | Sequence[Encoding] | None


class TransformerEmbedding(nn.Module):
    """Token embedding, plus position, plus dropout.

        x = dropout(embed(sqrt(dim) * token, positions))

    The encoding's `embed` decides what position does here; relative encodings do nothing. An
    encoding merged by concat widens x, and a linear map brings it back to dim. Raises
    PositionsError for more than max_length tokens (None: any number), SettingError for what is no
    encoding, ShapeError for one of another width.

    Example: `TransformerEmbedding(100, 64, encoding=Sinusoidal(64))(tokens)`.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.4.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        max_length: int | None = None,
        encoding: Encoding | Sequence[Encoding] | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        optional = given(max_length=max_length)
        whole("TransformerEmbedding", vocab_size=vocab_size, dim=dim, **optional)
        probability("TransformerEmbedding", dropout=dropout)
        self.dim, self.max_length = dim, max_length
        self.token = nn.Embedding(vocab_size, dim)
        nn.init.normal_(self.token.weight, std=dim**-0.5)
        parts = encodings_in(encoding, "TransformerEmbedding")
        self.encodings = nn.ModuleList(parts)
        width = dim
        for part in parts:
            width = part.embedded_width(width)
        # Drawn aside, so that what a model draws next is the same with every encoding.
        with torch.random.fork_rng(devices=[]):
            self.project = nn.Linear(width, dim) if width != dim else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, tokens: Int[Tensor, "b t"], positions: Positions | Tensor | None = None
    ) -> Float[Tensor, "b t c"]:
        if self.max_length is not None:
            end = positions.k_len if isinstance(positions, Positions) else tokens.shape[1]
            if end > self.max_length:
                raise PositionsError(
                    f"TransformerEmbedding(max_length={self.max_length}) got {end} tokens"
                )
        x = self.token(tokens) * self.dim**0.5
        for part in owned(self.encodings):
            x = part.embed(x, positions)
        return self.dropout(self.project(x))


class Attention(nn.Module):
    """Multi-head attention with any encoding: project, attend, project back.

    heads query heads share kv_heads key and value heads (None: as many). Raises SettingError
    where dim, heads and kv_heads do not divide, ShapeError for an encoding of other heads, and
    what `posenc.attend` raises.

    Example: `Attention(64, 4, Rotary(16))(x)`.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        encoding: Encoding | Sequence[Encoding] | None = None,
        *,
        kv_heads: int | None = None,
        causal: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        whole("Attention", dim=dim, heads=heads, kv_heads=kv_heads)
        one_of("Attention", (False, True), causal=causal)
        probability("Attention", dropout=dropout)
        if dim % heads or heads % kv_heads:
            raise SettingError(
                f"Attention(dim={dim}, heads={heads}, kv_heads={kv_heads}): "
                "dim must be a multiple of heads, and heads of kv_heads"
            )
        self.heads, self.kv_heads, self.causal, self.dropout = heads, kv_heads, causal, dropout
        head_dim = dim // heads
        self.query = nn.Linear(dim, heads * head_dim, bias=False)
        self.key = nn.Linear(dim, kv_heads * head_dim, bias=False)
        self.value = nn.Linear(dim, kv_heads * head_dim, bias=False)
        self.out = nn.Linear(heads * head_dim, dim, bias=False)
        self.encodings = fitting(encoding, "Attention", heads, head_dim)

    def forward(
        self,
        x: Float[Tensor, "b t c"],
        lowered: Lowerable = None,
        *,
        positions: Positions | Tensor | None = None,
        cache: Cache | None = None,
        memory: Float[Tensor, "b m c"] | None = None,
    ) -> Float[Tensor, "b t c"]:
        """What x makes of the memory, keys and values, which is x itself where None is given.

        `lowered` stands in for an encoding that several layers share.
        """
        memory = x if memory is None else memory
        encoding = owned(self.encodings) if lowered is None else lowered
        causal: bool | None = self.causal
        if isinstance(encoding, Lowered):
            context, causal = None, None
        else:
            # Payloads are of keys, which the memory holds.
            of_query, of_key = (partial(_by_heads, x, self.heads) for x in (self.query, self.key))
            context = Context(memory, None, of_query, of_key)
        q, k, v = (
            project(tokens).unflatten(-1, (count, -1)).transpose(1, 2)
            for project, tokens, count in (
                (self.query, x, self.heads),
                (self.key, memory, self.kv_heads),
                (self.value, memory, self.kv_heads),
            )
        )
        out = attend(
            q,
            k,
            v,
            encoding,
            causal=causal,
            positions=positions,
            context=context,
            cache=cache,
            dropout=self.dropout if self.training else 0.0,
        )
        return self.out(out.transpose(1, 2).flatten(-2))


def _by_heads(
    project: nn.Linear, heads: int, table: Float[Tensor, "rows c"]
) -> Float[Tensor, "h rows d"]:
    """A table as the layer's weights of queries or of keys project it."""
    # Tables come in at least float32, also where the layer's weights are narrower.
    rows = F.linear(table, project.weight.to(table.dtype))
    rows = rows.unflatten(-1, (-1, project.in_features // heads)).transpose(0, 1)
    shared = heads // rows.shape[0]
    return rows if shared == 1 else rows.repeat_interleave(shared, dim=0)


class Block(nn.Module):
    """Attention and a two-layer perceptron, each behind a LayerNorm and around a residual."""

    def __init__(
        self, dim: int, heads: int, kv_heads: int | None, causal: bool, dropout: float
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(dim)
        self.attention = Attention(dim, heads, kv_heads=kv_heads, causal=causal, dropout=dropout)
        self.mlp_norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "b t c"],
        lowered: Lowerable,
        positions: Positions | None,
        cache: Cache | None,
        memory: Float[Tensor, "b m c"] | None = None,
    ) -> Float[Tensor, "b t c"]:
        memory = None if memory is None else self.attention_norm(memory)
        attended = self.attention(
            self.attention_norm(x), lowered, positions=positions, cache=cache, memory=memory
        )
        x = x + self.dropout(attended)
        hidden = F.gelu(self.up(self.mlp_norm(x)))
        return x + self.dropout(self.down(hidden))


class Transformer(nn.Module):
    """A Transformer over tokens: embedding, blocks, norm, and the token embedding as output.

    encoding  one object (or a list that composes) for all layers, owned by the model alone; or a
              function of the layer's number that gives those of each, as `posenc.layers` does.
              Layers that have the same ones share their terms, lowered once per forward
    causal    a decoder; False gives an encoder

    forward(tokens) returns logits (b, t, vocab_size). With caches, one Cache per layer, tokens
    are the new ones only. Raises ShapeError for an encoding that was made for other heads, and
    for caches that are not one per layer; PositionsError for more than max_length tokens; and what
    `posenc.attend` raises.

    Example: `Transformer(100, dim=64, depth=2, heads=4, encoding=Rotary(16))(tokens)`.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        depth: int,
        heads: int,
        encoding: Given | Callable[[int], Given] = None,
        *,
        kv_heads: int | None = None,
        max_length: int | None = None,
        causal: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        optional = given(kv_heads=kv_heads, max_length=max_length)
        whole("Transformer", vocab_size=vocab_size, dim=dim, heads=heads, **optional)
        whole("Transformer", 0, depth=depth)
        one_of("Transformer", (False, True), causal=causal)
        probability("Transformer", dropout=dropout)
        self.causal = causal
        self.differ = callable(encoding) and not isinstance(encoding, Encoding)
        if callable(encoding) and not isinstance(encoding, Encoding):
            of_layers = [encodings_in(encoding(n), "Transformer") for n in range(max(depth, 1))]
        else:
            of_layers = [encodings_in(encoding, "Transformer")] * max(depth, 1)
        # One encoding is registered in the embedding alone: shared tensors cannot be saved twice.
        first = of_layers[0]
        self.embedding = TransformerEmbedding(vocab_size, dim, max_length, first, dropout)
        known = {id(part): part for parts in of_layers for part in parts}
        later = [part for key, part in known.items() if key not in set(map(id, first))]
        self.later_encodings = nn.ModuleList(later)
        places = {id(part): place for place, part in enumerate([*first, *later])}
        self.places = [tuple(places[id(part)] for part in parts) for parts in of_layers]
        self.blocks = nn.ModuleList(
            Block(dim, heads, kv_heads, causal, dropout) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(dim)
        for part in (*owned(self.embedding.encodings), *later):
            check_fits(part, heads=heads, head_dim=dim // heads)

    def encodings_of(self, layer: int) -> list[Encoding]:
        """The encodings that a layer uses."""
        each = [*owned(self.embedding.encodings), *owned(self.later_encodings)]
        return [each[place] for place in self.places[layer]]

    def forward(
        self,
        tokens: Int[Tensor, "b t"],
        positions: Positions | Tensor | None = None,
        caches: Sequence[Cache] | None = None,
    ) -> Float[Tensor, "b t vocab"]:
        with unchanged_on_error(caches or ()):
            if caches is not None:
                check_caches(caches, len(self.blocks))
            shared = SharedTerms(tokens.shape[1], positions, caches)
            told: dict[str, Any] = {"causal": self.causal, "device": tokens.device}
            x = self.embedding(tokens, shared.place(0, self.places[0], **told))
            for layer, block in enumerate(self.blocks):
                parts, kind = self.encodings_of(layer), self.places[layer]
                cache = None if caches is None else caches[layer]
                placed = shared.place(layer, kind, **told)
                if cache is not None:
                    cache.check(parts, tokens.shape[1])
                for part in parts if layer else []:
                    if part.tags.every_layer or self.differ:
                        x = part.embed(x, placed, layer=layer)
                relative = [part for part in parts if not embeds_only(part)]
                if any(part.tags.needs_context for part in relative):
                    x = block(x, relative, placed, cache)
                    continue
                dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
                lowered = shared.lower(layer, kind, relative, placed, dtype)
                x = block(x, lowered, None, cache)
            return F.linear(self.norm(x), self.embedding.token.weight)
