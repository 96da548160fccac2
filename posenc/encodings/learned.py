from collections.abc import Iterator
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor, nn

from posenc.encoding import Encoding, Tags
from posenc.encodings._absolute import Merge, Table
from posenc.errors import SettingError, finite, is_whole, one_of, whole


class Learned(Table):
    """One trained vector per position, added to the embeddings.

        x[pos] + weight[pos],   weight (max_length, dim), normal with deviation 0.02 at first

    Rows beyond the longest training input stay as they began; `extended` gives a longer table,
    `resized` one for another grid of patches.
    merge "multiply" is x * (1 + weight), "hadamard" x * weight, "concat" puts the row beside x.
    Row padding_idx is zero at first and gets no gradient, as in torch.nn.Embedding. Raises
    SettingError for a padding_idx of no row, PositionsError for positions of max_length and more,
    for fractional positions, and for a bare tensor, which does not tell how far it reaches.

    Source: Gehring et al. 2017, arXiv:1705.03122, section 3.1; BERT, arXiv:1810.04805.
    """

    name = "learned"
    paper = "arXiv:1810.04805"
    tags = Tags(needs_extent=True)

    def __init__(
        self, dim: int, max_length: int, merge: Merge = "add", padding_idx: int | None = None
    ) -> None:
        super().__init__(dim, max_length, merge)
        inside = is_whole(padding_idx) and 0 <= padding_idx < max_length
        if padding_idx is not None and not inside:
            raise SettingError(
                f"Learned(max_length={max_length}, padding_idx={padding_idx}): rows are 0 to "
                f"{max_length - 1}; give one of them, or None"
            )
        self.padding_idx = padding_idx
        weight = torch.randn(max_length, dim) * 0.02
        if padding_idx is not None:
            weight[padding_idx] = 0
        self.weight = nn.Parameter(weight)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(16, max_length=64)
        yield cls(16, max_length=64, merge="multiply")
        yield cls(16, max_length=64, merge="hadamard")
        yield cls(6, max_length=64, merge="concat")

    @classmethod
    def from_rows(
        cls, rows: Float[Tensor, "rows e"], merge: Merge = "add", padding_idx: int | None = None
    ) -> "Learned":
        """A table that starts from these rows, trainable, in their dtype and on their device.

        Row padding_idx too is taken as it is, and gets no gradient.
        """
        table = cls(rows.shape[1], rows.shape[0], merge, padding_idx).to(rows)
        with torch.no_grad():
            table.weight.copy_(rows)
        return table

    def extended(
        self,
        length: int,
        method: Literal["random", "interpolate", "hierarchical"] = "random",
        alpha: float = 0.4,
    ) -> "Learned":
        """A new table of `length` rows that starts from this one.

        "random" keeps the n rows and draws the others afresh, for further training.
        "interpolate" spreads the rows evenly, linear in between: the first and the last stay at
        the ends (align_corners=True), row i is read at i * (n - 1) / (length - 1).
        "hierarchical" writes position i * n + j in two digits, and keeps the first n rows:

            q[i * n + j] = alpha * u[i] + (1 - alpha) * u[j],   u = (p - alpha * p[0]) / (1 - alpha)

        All are starts for further training. No model has met the new rows: those of "interpolate"
        lie closer together than trained ones, those of "hierarchical" are mixtures of two and
        longer than either, sqrt(1 + (alpha / (1 - alpha))**2) = 1.2 times where rows are unrelated
        and p[0] is small. Without training, cutting texts at n may do better: measure both.

        Example: `Learned(64, max_length=128).extended(512, "hierarchical")`.

        Raises SettingError for length < n, for a hierarchical length > n**2, for alpha outside
        (0, 1) or at 0.5, where digits could be exchanged, and for a padding_idx with a method that
        mixes rows.

        Source of "hierarchical": Su, https://kexue.fm/archives/7947, and bert4keras.
        """
        rows, n = self.weight.detach(), self.max_length
        call = f"Learned(max_length={n}).extended({length}, {method!r})"
        whole("Learned.extended", length=length)
        finite("Learned.extended", alpha=alpha)
        if length < n:
            raise SettingError(f"{call}: length must be at least max_length")
        if method == "random":
            fresh = type(self)(self.dim, length, self.merge).to(rows).weight.detach()
            return self.from_rows(torch.cat((rows, fresh[n:])), self.merge, self.padding_idx)
        if self.padding_idx is not None:
            raise SettingError(
                f"{call}: row padding_idx={self.padding_idx} is no position to be mixed with "
                "others: extend from_rows(weight[padding_idx + 1 :]), or by 'random'"
            )
        if method == "interpolate":
            columns = rows.double().T[None]
            spread = F.interpolate(columns, length, mode="linear", align_corners=True)
            return self.from_rows(spread[0].T.to(rows.dtype), self.merge)
        if method != "hierarchical":
            raise SettingError(f"{call}: method is 'random', 'interpolate' or 'hierarchical'")
        if length > n**2:
            raise SettingError(f"{call}: two digits reach {n**2} = {n} * {n} positions, no further")
        if not 0 < alpha < 1 or alpha == 0.5:
            raise SettingError(f"{call}, alpha={alpha}: 0 < alpha < 1, and not 0.5, is needed")
        index = torch.arange(n, length, device=rows.device)
        u = (rows.double() - alpha * rows[:1].double()) / (1 - alpha)
        beyond = alpha * u[index // n] + (1 - alpha) * u[index % n]
        # For i = 0 the formula gives p[j] itself, but for its rounding.
        return self.from_rows(torch.cat((rows, beyond.to(rows.dtype))), self.merge)

    def resized(
        self,
        grid: tuple[int, int],
        to: tuple[int, int],
        leading: int = 0,
        mode: Literal["bicubic", "bilinear"] = "bicubic",
        antialias: bool = False,
        align_corners: bool = False,
        offset: float = 0.0,
    ) -> "Learned":
        """A new table for another resolution: patches of `to` in place of `grid`, (rows, columns).

        The first `leading` rows, of class and registers, are kept; the others are the patches, row
        by row. On an axis of n patches that becomes m, patch i is read, in patches, at

            (i + 1/2) * n / (m + offset) - 1/2     or, with align_corners, at i * (n - 1) / (m - 1)

        antialias widens the filter where there are fewer patches than before, and gives the
        bicubic one another curve (a = -1/2 in place of -3/4). The default is DeiT's, which keeps
        the norm of the vectors about as it is. Models come with others:

            DeiT, ViT and DINOv2 of transformers           the default
            DINOv2 of its authors, without registers       offset=0.1
            DINOv2 with registers, timm                    antialias=True
            SigLIP 2                                       mode="bilinear", antialias=True
            ViT of its authors, big_vision                 mode="bilinear", align_corners=True
            torchvision                                    align_corners=True

        The same grid changes nothing, whatever the settings; nor does the offset along an axis that
        keeps its size, but where bicubic is not antialiased (torch copies the axis otherwise). It
        is computed in float64.

        Example: `Learned(64, 1 + 14 * 14).resized((14, 14), (16, 24), leading=1)`.

        Raises SettingError for a grid that does not fill the table, another mode, offset outside
        [0, 1), offset or antialias with align_corners, and for a padding_idx, whose row would be
        mixed with others.

        Source: Touvron et al. 2020, arXiv:2012.12877, section 6; Dosovitskiy et al. 2020,
        arXiv:2010.11929, section 3.2; and the code of each.
        """
        call = f"Learned(max_length={self.max_length}).resized({grid}, {to}, leading={leading})"
        whole("Learned.resized", 0, leading=leading)
        finite("Learned.resized", offset=offset)
        counted = all(is_whole(size) and size >= 1 for size in (*grid, *to))
        if not counted or leading + grid[0] * grid[1] != self.max_length:
            raise SettingError(
                f"{call}: sizes of 1 or more are needed, and a grid that fills the table: "
                f"{leading} + {grid[0]} * {grid[1]} rows of {self.max_length}"
            )
        one_of("Learned.resized", ("bicubic", "bilinear"), mode=mode)
        if not 0 <= offset < 1 or (align_corners and (offset or antialias)):
            raise SettingError(
                f"{call}, {antialias=}, {align_corners=}, {offset=}: 0 <= offset < 1 is needed; "
                "where corners are aligned neither an offset, which would not move them, nor "
                "antialias, whose filter is centred on patches"
            )
        if self.padding_idx is not None:
            raise SettingError(
                f"{call}: row padding_idx={self.padding_idx} is no patch to be mixed with others"
            )
        rows = self.weight.detach()
        if tuple(grid) == tuple(to):
            return self.from_rows(rows, self.merge)
        patches = rows[leading:].double().T.reshape(1, -1, *grid)
        ratios = None if not offset else [(m + offset) / n for m, n in zip(to, grid, strict=True)]
        patches = F.interpolate(
            patches,
            None if ratios else tuple(to),
            ratios,
            mode=mode,
            align_corners=align_corners,
            antialias=antialias,
        )
        return self.from_rows(
            torch.cat((rows[:leading], patches[0].flatten(1).T.to(rows.dtype))),
            self.merge,
        )

    def rows(self, length: int, layer: int = 0) -> Float[Tensor, "rows e"]:
        return self.weight

    def reference_rows(self, length: int) -> Float64[Tensor, "rows e"]:
        return self.weight.double()
