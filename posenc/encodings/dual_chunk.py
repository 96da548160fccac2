from collections.abc import Iterator

import torch
from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Context, Encoding, Pairs, Tags
from posenc.encodings._rotary import RotaryEncoding
from posenc.errors import SettingError, whole
from posenc.positions import Positions
from posenc.terms import ChunkZones, Layout, Rotate, Term


class DualChunk(RotaryEncoding):
    """Dual chunk attention: RoPE within a chunk, and across chunks no distance beyond training's.

    Keys stand at n mod chunk. A query at m, i = m mod chunk, stands before keys

        of its own chunk      at i
        of the chunk before   at chunk + i where i < local, else at length - 1
        of older chunks       at length - 1

        score = scale * q[m] . R[-(difference)] k[n],   turning as in Rotary

    so that no distance reaches length, the number of tokens that the model was trained on, and the
    nearest `local` tokens are always at their own distance. length None is chunk + local, the least
    that fits. The authors' code and vLLM say it by chunk_size and local_size, the two numbers of
    Qwen2.5-1M's dual_chunk_attention_config: give chunk = chunk_size - local_size and
    local = local_size + 1. What they multiply scores by beside it is a term: vLLM's
    Scale(1 + 0.1 * log(tokens / original_length)), the authors'
    Temperature("yarn", factor=tokens / training's, strength=0.05), each where it is above 1.

    Chunks are of positions, from 0 on. Causal only. Keys turn once, so that Cache("rotated") and
    Cache("raw") both decode it. Raises SettingError for an odd dim, for chunk, local or length that
    are no whole numbers of 1 or more, and for length < chunk + local.

    Source: An et al. 2024, arXiv:2402.17463, section 3, and the code of HKUNLP/ChunkLlama.
    """

    name = "dual_chunk"
    paper = "arXiv:2402.17463"
    tags = Tags(causal_only=True, norm_preserving=True)

    def __init__(
        self,
        dim: int,
        chunk: int,
        local: int,
        length: int | None = None,
        base: float = 10_000.0,
        layout: Layout = "half",
    ) -> None:
        super().__init__(dim, base, layout)
        whole("DualChunk", chunk=chunk, local=local)
        if length is not None:
            whole("DualChunk", length=length)
            if length < chunk + local:
                raise SettingError(
                    f"DualChunk(chunk={chunk}, local={local}, length={length}): queries stand up "
                    f"to {chunk + local - 1} before the chunk before, so length must be at least "
                    f"{chunk + local}"
                )
        self.chunk, self.local, self.length = chunk, local, length

    @classmethod
    def for_model(cls, *, head_dim: int, train_length: int, **_: object) -> Encoding:
        # Chunks of three quarters, as the paper takes them.
        local = max(1, train_length // 4)
        return cls(head_dim, max(1, train_length - local), local)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, chunk=4, local=2)
        yield cls(12, chunk=3, local=1, length=8, base=500.0, layout="interleaved")

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        q, k = (x.remainder(self.chunk) for x in positions.one_axis("DualChunk"))
        last = torch.full_like(q, self._last)
        after = torch.where(q < self.local, q + self.chunk, last)
        same = Rotate(self.angles(q), self.angles(k), self.layout)
        ahead = (Rotate(self.angles(x), None, self.layout) for x in (after, last))
        return (ChunkZones(same, *ahead, width=self.chunk),)

    @property
    def _last(self) -> int:
        """Where queries stand before keys of old chunks."""
        return (self.chunk + self.local if self.length is None else self.length) - 1

    def reference_back(self, at: Pairs) -> Float64[Tensor, "b 1 tq tk"]:
        back, last = -at.distance(), self._last
        for row in range(back.shape[0]):
            for i, m in enumerate(at.q[row].tolist()):
                for j, n in enumerate(at.k[row].tolist()):
                    chunks = m // self.chunk - n // self.chunk
                    own = m % self.chunk
                    if chunks == 1:
                        own = own + self.chunk if own < self.local else last
                    elif chunks > 1:
                        own = last
                    back[row, 0, i, j] = own - n % self.chunk
        return back
