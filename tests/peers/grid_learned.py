from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.encodings import GridLearned
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer
from tests.peers._layers import set_alike


@peer("grid_learned", "transformers")
def patches_of_gemma() -> Iterator[Case]:
    """Gemma4VisionPatchEmbedder, whole, with padding"""
    from transformers.models.gemma4.configuration_gemma4 import Gemma4VisionConfig
    from transformers.models.gemma4.modeling_gemma4 import Gemma4VisionPatchEmbedder

    for height, width, dim in ((3, 5, 12), (1, 1, 8), (4, 2, 80)):
        config = Gemma4VisionConfig(hidden_size=dim, patch_size=2, position_embedding_size=9)
        layer = Gemma4VisionPatchEmbedder(config).double()
        encoding = GridLearned(dim, 9, order=(1, 0)).double()
        own = GridLearned(dim, 9).double()
        grid = Positions.grid(height, width)
        count = height * width
        # Their processor gives (column, row), and -1 for padding.
        there = torch.full((2, count + 2, 2), -1)
        there[:, :count] = grid.keys.position.flip(-1)
        padding = (there == -1).all(dim=-1)

        def ours(
            x: Tensor,
            layer: Gemma4VisionPatchEmbedder = layer,
            e: GridLearned = encoding,
            at: Positions = grid,
            count: int = count,
        ) -> Tensor:
            patches = layer.input_proj(2 * (x - 0.5))
            return torch.cat((e.embed(patches[:, :count], at), patches[:, count:]), dim=1)

        def theirs(
            x: Tensor,
            layer: Gemma4VisionPatchEmbedder = layer,
            there: Tensor = there,
            padding: Tensor = padding,
        ) -> Tensor:
            return layer(x, there, padding)

        def at_theirs(
            x: Tensor,
            layer: Gemma4VisionPatchEmbedder = layer,
            e: GridLearned = own,
            there: Tensor = there,
            padding: Tensor = padding,
        ) -> Tensor:
            patches = layer.input_proj(2 * (x - 0.5))
            placed = e.embed(patches, Positions.build(ids=there.clamp(min=0)))
            return torch.where(padding[..., None], patches, placed)

        x = torch.randn(2, count + 2, 12, dtype=torch.float64)
        table = layer.position_embedding_table
        for said, call, used in (("rows", ours, encoding), ("(x, y)", at_theirs, own)):
            weights = [set_alike(used.weight, table)]
            with torch.no_grad():
                encoding.weight.copy_(table)
            yield Case(f"{height} x {width}, {dim} wide, {said}", call, theirs, [x], weights)


@peer("grid_learned", "transformers")
def embedding_of_detr() -> Iterator[Case]:
    """DetrLearnedPositionEmbedding, columns beside rows"""
    from transformers.models.detr.modeling_detr import DetrLearnedPositionEmbedding

    for height, width, dim in ((3, 5, 12), (1, 1, 8)):
        theirs = DetrLearnedPositionEmbedding(dim // 2).double()
        encoding = GridLearned(dim, 50, join="concat", order=(1, 0)).double()
        tables = torch.stack((theirs.column_embeddings.weight, theirs.row_embeddings.weight))
        with torch.no_grad():
            encoding.weight.copy_(tables)
        shape, at = torch.Size((1, 3, height, width)), Positions.grid(height, width)

        def added(
            x: Tensor, e: DetrLearnedPositionEmbedding = theirs, shape: torch.Size = shape
        ) -> Tensor:
            return x + e(shape, torch.device("cpu"), torch.float64)[0].flatten(1).T

        def ours(x: Tensor, e: GridLearned = encoding, at: Positions = at) -> Tensor:
            return e.embed(x, at)

        x = torch.randn(2, height * width, dim, dtype=torch.float64)
        yield Case(f"{height} x {width}, {dim} wide", ours, added, [x])
