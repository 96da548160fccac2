from collections.abc import Iterator

from jaxtyping import Float64
from torch import Tensor

from posenc.encoding import Encoding, Tags
from posenc.encodings._absolute import Absolute, Merge
from posenc.positions import Positions


class Ordinal(Absolute):
    """The plain position, 0, 1, 2, ..., added to every dimension of the embeddings.

        x[pos] + pos

    For embeddings of any width. merge "multiply" is x * (1 + pos), "hadamard" x * pos, "concat"
    puts pos beside x as one more column. Positions are in tokens and may be fractional.

    It is here to be seen to fail. Added to all dimensions alike it is gone after the next
    LayerNorm, which subtracts their mean; a factor common to all is divided out. And the number
    is unbounded: at position 1000 it outweighs a token of size 1 a thousand times, a longer text
    brings numbers that training never showed, bfloat16 confuses positions from 256 on and float16
    overflows at 65,520.

    Source: Kazemnejad 2019, "Transformer Architecture: The Positional Encoding", which starts
    from this idea and drops it.
    """

    name = "ordinal"
    paper = "https://kazemnejad.com/blog/transformer_architecture_positional_encoding/"
    tags = Tags()

    def __init__(self, merge: Merge = "add") -> None:
        super().__init__(1, merge)
        # One number serves every width.
        self.model_dim = None

    @classmethod
    def for_model(cls, **_: object) -> Encoding:
        return cls(merge="concat")

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        # Not merge="add": LayerNorm hides it from a model, as a test shows.
        yield from (cls(merge="concat"), cls(merge="multiply"))

    def vectors(self, positions: Positions) -> Float64[Tensor, "#b t 1"]:
        return self.coordinates(positions).double()

    def reference_vectors(self, positions: Float64[Tensor, "b t"]) -> Float64[Tensor, "b t 1"]:
        return positions[..., None]
