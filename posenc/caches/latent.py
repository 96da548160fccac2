"""The cache whose values are a part of its keys, so that a token is kept once."""

import torch
from torch import Tensor

from posenc.caches.cache import Cache
from posenc.caches.checks import turn_of_keys
from posenc.caches.growing_buffer import joined
from posenc.errors import CacheError
from posenc.lowering import Lowered


class LatentCache(Cache):
    """A cache that keeps keys alone: values are their first dimensions, and take no memory.

    That is what MLA keeps in its absorbed form, a latent vector and a turned key behind it, 512 and
    64 numbers per token in DeepSeek-V2 and V3. policy and length are as in Cache. Values are as
    wide as those of the call. Raises CacheError where values are no such part of the keys, which
    is asked when the first tokens come, and what Cache raises.

    Source: DeepSeek-AI 2024, arXiv:2405.04434, sections 2.1.2 and 2.1.3.

    Example: `attend(q, k, k[..., :512], Rotary(576, rotary_dim=64, start=-64), cache=cache)`.
    """

    def append(
        self, k: Tensor, v: Tensor, lowered: Lowered, payload: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Lowered]:
        """All keys so far, the part of them that is values, and terms that fit these keys."""
        first, width = self.k is None, v.shape[-1]
        k, own, kept = super().append(k, v, lowered, payload)
        self.v = k[..., :width]
        traced = torch.compiler.is_compiling()
        alike = not first or traced or (own.shape == self.v.shape and torch.equal(own, self.v))
        if not alike or (first and self.policy == "rotated" and _turned_alone(lowered, width)):
            raise CacheError(
                f"{self!r} takes the first {width} dimensions of the keys, as they are kept, for "
                f"values, but these values {tuple(own.shape)} are others: give v=k[..., :{width}], "
                "where no term turns these dimensions of keys alone, or decode with Cache"
            )
        return k, self.v, kept

    def reorder(self, rows: Tensor) -> None:
        super().reorder(rows)
        self._share()

    def truncate(self, length: int) -> None:
        super().truncate(length)
        self._share()

    def _share(self) -> None:
        """Values as a part of the keys again, where those were copied."""
        if self.k is not None and self.v is not None:
            self.v = self.k[..., : self.v.shape[-1]]

    def _joined(self, k: Tensor, new_k: Tensor, v: Tensor, new_v: Tensor) -> tuple[Tensor, Tensor]:
        k, buffer = joined(k, new_k, self.buffers[0], self.length)
        self.buffers = buffer, None
        return k, k[..., : v.shape[-1]]


def _turned_alone(lowered: Lowered, width: int) -> bool:
    """Whether keys are turned in their first dimensions and values are not, or values alone.

    The numbers of a first token do not show it, for nothing turns at position 0.
    """
    turn, matrices = turn_of_keys(lowered.terms), lowered.form.transform
    if matrices is not None and matrices.k is not None:
        return True
    of_keys = turn is not None and turn.k_angle is not None and turn.start < width
    return of_keys != (lowered.form.value_rotation is not None)
