"""cos and sin for a transformers model, in place of its own rotary module.

Letters: b batch, t tokens, a axes, r pairs, n numbers per token as the model's code takes them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from posenc.encoding import Encoding
from posenc.errors import UnsupportedError
from posenc.positions import Positions, Tokens
from posenc.terms import Rotate

Spread = Callable[[Tensor], Tensor]


def _halves(x: Tensor) -> Tensor:
    return torch.cat([x, x], dim=-1)


def _neighbours(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, dim=-1)


def _once(x: Tensor) -> Tensor:
    return x


class Waves(nn.Module):
    """What a model's rotary module returns, cos and sin, of angles in float64.

    encodings are by layer type, or one by None; where there is none, nothing turns. Pairs are
    spread over the numbers of a token as `replaced` does it, the module that this one stands in
    for. Raises UnsupportedError for an encoding of another number of pairs.
    """

    def __init__(
        self, encodings: Mapping[str | None, Encoding | None], replaced: nn.Module
    ) -> None:
        super().__init__()
        # In plain dicts, for what is learned belongs to the whole model.
        self.encodings = dict(encodings)
        some = next(iter(encodings))
        self.complex = isinstance(_at(replaced, some), Tensor)
        self.sin_first = not self.complex and not _at(replaced, some, position=0)[0].any()
        # Some models turn in float32 what is bfloat16 (Llama 4, OLMo, ERNIE 4.5, CodeGen).
        self.wide = _first_of(_at(replaced, some, dtype=torch.bfloat16)).dtype == torch.float32
        self.widths: dict[str | None, int] = {}
        self.spreads: dict[str | None, Spread] = {}
        for kind, encoding in self.encodings.items():
            cos = _first_of(_at(replaced, kind))
            self.widths[kind] = cos.shape[-1]
            self.spreads[kind] = _spread_of(cos)
            if encoding is None:
                continue
            turned = self.cos_and_sin(cos, _ONE, kind)[0].shape[-1]
            if turned != cos.shape[-1]:
                raise UnsupportedError(
                    f"attach: {encoding!r} gives {turned} numbers per token and "
                    f"{type(replaced).__name__} {cos.shape[-1]}: turn as many dimensions as the "
                    "model does"
                )

    def forward(
        self, x: Tensor, position_ids: Tensor, layer_type: str | None = None
    ) -> tuple[Tensor, Tensor] | Tensor:
        """As the model's own module: (cos, sin), (sin, cos) (GPT-J), or cos + i sin of each pair
        (Llama 4).
        """
        cos, sin = self.cos_and_sin(x, position_ids, layer_type)
        if self.complex:
            return torch.complex(cos.float(), sin.float())
        return (sin, cos) if self.sin_first else (cos, sin)

    def cos_and_sin(
        self, x: Tensor, position_ids: Tensor, layer_type: str | None = None
    ) -> tuple[Tensor, Tensor]:
        """(cos, sin), each (b, t, n) in x's dtype, or in float32 where the model's own module gives
        that for less; position_ids (b, t), or (a, b, t) for images.
        """
        if self.wide and x.itemsize < 4:
            x = x.float()
        encoding = self.encodings[layer_type]
        ids = position_ids.movedim(0, -1) if position_ids.ndim == 3 else position_ids
        if encoding is None:
            ones = x.new_ones(*ids.shape[:2], self.widths[layer_type])
            return ones, torch.zeros_like(ones)
        tokens = Tokens(ids.long())
        (term,) = encoding.lower(Positions(tokens, tokens))
        assert isinstance(term, Rotate)
        # One head's angles are those of all.
        angle, spread = term.q_angle[:, 0], self.spreads[layer_type]
        cos, sin = spread(angle.cos() * term.gain), spread(angle.sin() * term.gain)
        return cos.to(x.dtype), sin.to(x.dtype)


def turns_before_scores(encoding: Encoding, start: int = 0) -> bool:
    """Whether queries and keys of each token can be turned by cos and sin of its position alone.

    start  the first dimension that the model's code turns by them
    """
    tags = encoding.tags
    if encoding.family != "rotary" or tags.causal_only:
        return False
    # A position alone tells of no length.
    if tags.length_dependent or tags.needs_extent:
        return False
    tokens = Tokens(torch.zeros(1, 2, dtype=torch.long))
    terms = encoding.lower(Positions(tokens, tokens))
    if len(terms) != 1 or not isinstance(terms[0], Rotate):
        return False
    turn = terms[0]
    if turn.q_log_scale is not None or turn.start != start or turn.q_angle.shape[1] != 1:
        return False
    # Nor of an order, which position_ids of padded and of later tokens do not count.
    ordered = Tokens(tokens.position, order=torch.tensor([[3, 1_000_003]]))
    (other,) = encoding.lower(Positions(ordered, ordered))
    return isinstance(other, Rotate) and torch.equal(other.q_angle, turn.q_angle)


_ONE = torch.ones(1, 1, dtype=torch.long)


def _at(
    rotary: nn.Module, kind: str | None, position: int = 1, dtype: torch.dtype = torch.float32
) -> Any:
    """What a rotary module gives for one token."""
    device = next(rotary.buffers()).device
    ids, like = position * _ONE.to(device), torch.zeros(1, 1, 1, dtype=dtype, device=device)
    return rotary(like, ids) if kind is None else rotary(like, ids, kind)


def _first_of(waves: Any) -> Tensor:
    return waves.real if isinstance(waves, Tensor) else waves[0]


def _spread_of(cos: Tensor) -> Spread:
    """How a token's numbers come of its pairs: each twice, in halves or side by side, or once."""
    half = cos.shape[-1] // 2
    if torch.equal(cos[..., :half], cos[..., half:]):
        return _halves
    if torch.equal(cos[..., ::2], cos[..., 1::2]):
        return _neighbours
    return _once
