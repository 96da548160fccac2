import math
from collections.abc import Iterator

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from posenc.encoding import Encoding, Pairs, Tags
from posenc.encodings._distance import DistanceBias
from posenc.errors import SettingError, one_of, whole
from posenc.torch_modes import settled


class T5Bias(DistanceBias):
    """One trained number per head and bucket of distances, shared by all layers.

        score[i, j] = scale * q[i] . k[j] + weight[bucket(j - i), h],   weight (buckets, heads)

    Half of a direction's buckets hold one distance each, the other half grow logarithmically up to
    max_distance; farther distances share the last one. bidirectional gives each direction half of
    the buckets, otherwise the future shares bucket 0. T5 itself has no 1/sqrt(d): pass scale=1.0
    for its checkpoints. Raises SettingError for too few or an odd number of buckets and for a
    max_distance within the exact buckets; PositionsError for fractional positions, whose distances
    below 1 have no bucket.

    Source: Raffel et al. 2020, arXiv:1910.10683, section 2.1, and the authors' code.
    """

    name = "t5"
    paper = "arXiv:1910.10683"
    tags = Tags(translation_invariant=True, norm_preserving=True)
    counted = True

    def __init__(
        self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = False
    ) -> None:
        super().__init__(heads)
        whole("T5Bias", buckets=buckets, max_distance=max_distance)
        one_of("T5Bias", (False, True), bidirectional=bidirectional)
        exact = buckets // 4 if bidirectional else buckets // 2
        if buckets % 2 or exact < 1:
            least = 4 if bidirectional else 2
            raise SettingError(f"T5Bias(buckets={buckets}): an even number >= {least} is needed")
        if max_distance <= exact:
            raise SettingError(
                f"T5Bias(buckets={buckets}, max_distance={max_distance}): distances below {exact} "
                f"have buckets of their own, so max_distance must be greater than {exact}"
            )
        self.buckets, self.max_distance, self.bidirectional = buckets, max_distance, bidirectional
        self.reach = (max_distance, max_distance if bidirectional else 0)
        self.weight = nn.Parameter(torch.randn(buckets, heads) * 0.02)

    @classmethod
    def for_model(cls, *, heads: int, train_length: int, causal: bool, **_: object) -> Encoding:
        # A bucket that no training distance reaches would stay untrained.
        buckets = max(4, min(32, train_length // 2 * 2))
        return cls(heads, buckets, max(buckets, min(128, train_length)), not causal)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(4, buckets=8, max_distance=20)
        yield cls(4, buckets=12, max_distance=30, bidirectional=True)
        yield cls(12)

    def bucket(self, distance: Int[Tensor, "*n"]) -> Int[Tensor, "*n"]:
        """The bucket of each distance k - q, computed in float32 as checkpoints were."""
        size = self.buckets // 2 if self.bidirectional else self.buckets
        # Negative distances, over a negative number: few operators, for tables are small.
        behind = -distance.abs() if self.bidirectional else distance.clamp(max=0)
        exact = size // 2
        grown = behind.float().div_(-exact).log_().div_(math.log(self.max_distance / exact))
        # Beyond the exact buckets, and 0 for distances within them: of 0 the logarithm is -inf.
        beyond = grown.mul_(size - exact).clamp_(0, size - 1 - exact).long()
        bucket = beyond.sub_(behind.clamp_(min=-exact))
        return bucket + size * (distance > 0) if self.bidirectional else bucket

    def biases(self, distance: Int[Tensor, "n"], dtype: torch.dtype) -> Float[Tensor, "h n"]:
        return self._of_buckets(self.bucket(distance))

    def table(
        self, past: int, future: int, dtype: torch.dtype, device: torch.device
    ) -> Float[Tensor, "h n"]:
        # An own class may count otherwise.
        if type(self) is not T5Bias:
            return super().table(past, future, dtype, device)
        settings = self.buckets, self.max_distance, self.bidirectional, past, future

        def buckets() -> Tensor:
            return self.bucket(torch.arange(-past, future + 1, device=device))

        return self._of_buckets(settled(self, "buckets", settings, device, buckets))

    def _of_buckets(self, bucket: Int[Tensor, "n"]) -> Float[Tensor, "h n"]:
        # By the second index, so that the table comes laid out by head.
        return self.weight.T[:, bucket]

    def reference_biases(self, at: Pairs) -> Float64[Tensor, "b h tq tk"]:
        def bucket_of(step: int) -> int:
            size = self.buckets // 2 if self.bidirectional else self.buckets
            start = size if self.bidirectional and step > 0 else 0
            n, exact = abs(step) if self.bidirectional else max(-step, 0), size // 2
            if n < exact:
                return start + n
            grown = math.log(n / exact) / math.log(self.max_distance / exact) * (size - exact)
            return start + min(exact + int(grown + 1e-6), size - 1)

        rows = at.distance()[:, 0].round().long().apply_(bucket_of)
        return self.weight[rows].permute(0, 3, 1, 2)
