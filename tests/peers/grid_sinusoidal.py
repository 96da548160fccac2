import math
from collections.abc import Iterator

import torch
from torch import Tensor

from posenc.encodings import GridSinusoidal
from posenc.positions import Positions
from posenc.testing.agreement import Case, peer

SIZES = ((3, 5, 80), (1, 1, 16), (14, 14, 64))


@peer("grid_sinusoidal", "transformers")
def table_of_mae() -> Iterator[Case]:
    """build_2d_sinusoidal_position_embedding of ViTMAE, rows first"""
    from transformers.models.vit_mae import modeling_vit_mae as mae

    for height, width, dim in SIZES:
        table = mae.build_2d_sinusoidal_position_embedding(height, width, dim, dtype=torch.float64)
        yield _added(GridSinusoidal(dim), Positions.grid(height, width), table)


@peer("grid_sinusoidal", "transformers")
def embedding_of_detr() -> Iterator[Case]:
    """DetrSinePositionEmbedding, with and without normalize"""
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding

    for height, width, dim in SIZES:
        rows, columns = torch.arange(1, height + 1).double(), torch.arange(1, width + 1).double()
        for normalize in (False, True):
            peer = DetrSinePositionEmbedding(dim // 2, normalize=normalize)
            shape = torch.Size((1, 3, height, width))
            table = peer(shape, "cpu", torch.float64)[0].flatten(1).T
            if normalize:
                rows = 2 * math.pi * rows / (height + 1e-6)
                columns = 2 * math.pi * columns / (width + 1e-6)
            at = Positions.build(ids=torch.cartesian_prod(rows, columns)[None])
            yield _added(GridSinusoidal(dim, layout="interleaved"), at, table)


@peer("grid_sinusoidal", "torch")
def tables_in_own_words() -> Iterator[Case]:
    """What timm, big_vision and MAE's authors compute, in own words: order and denominators"""
    for height, width, dim in SIZES:
        at, quarter = Positions.grid(height, width), dim // 4
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        steps = torch.arange(quarter, dtype=torch.float64)
        for last, denominator in ((quarter, "paper"), (quarter - 1, "tensor2tensor")):
            waves = [place.reshape(-1, 1) / 10_000 ** (steps / last) for place in (x, y)]
            table = torch.cat([f(angle) for angle in waves for f in (torch.sin, torch.cos)], -1)
            ours = GridSinusoidal(dim, order=(1, 0), denominator=denominator)
            yield _added(ours, at, table)
        # timm stacks (token, sine or cosine, axis, frequency), or axes before waves.
        angles = torch.stack((y.flatten(), x.flatten()), -1)[..., None] / 10_000 ** (
            steps / quarter
        )
        for stack, layout in ((1, "apart"), (2, "half")):
            table = torch.stack((angles.sin(), angles.cos()), stack).flatten(1)
            yield _added(GridSinusoidal(dim, layout=layout), at, table)


def _added(ours: GridSinusoidal, at: Positions, table: Tensor) -> Case:
    return Case(
        f"{ours!r}, {at.q_len} patches",
        lambda x: ours.embed(x, at),
        lambda x: x + table,
        [torch.randn(2, at.q_len, ours.dim, dtype=torch.float64)],
    )
