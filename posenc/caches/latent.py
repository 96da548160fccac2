"""The cache whose values are a part of its keys, so that a token is kept once."""

import torch
from torch import Tensor

from posenc.caches.cache import Cache
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
        k, own, lowered = super().append(k, v, lowered, payload)
        self.v = k[..., :width]
        traced = torch.compiler.is_compiling()
        if first and not traced and not (own.shape == self.v.shape and torch.equal(own, self.v)):
            raise CacheError(
                f"{self!r} takes the first {width} dimensions of the keys, as they are kept, for "
                f"values, but these values {tuple(own.shape)} are others: give v=k[..., :{width}], "
                "where no term turns these dimensions of keys alone, or decode with Cache"
            )
        return k, self.v, lowered

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
