"""Every way of making Positions, each named after what the user holds in hand.

build       numbers of tokens, a mask, packed documents, position_ids
varlen      cumulative lengths of queries and of keys
static      a cache of fixed size
rolling     a cache that keeps the last tokens, and sinks
mrope       text with images and videos
random      training for longer inputs: a random subset of their positions
skipping    the same with chunks that skip ahead
"""

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor

from posenc.errors import PositionsError
from posenc.positions.build_keys import arranged
from posenc.positions.consistency import device_of, sizes
from posenc.positions.from_documents import cumulative, documents_between, summed
from posenc.positions.mrope import TextAfter, time_row_column
from posenc.positions.randomised import randomised, rows_to_draw
from posenc.positions.rolling import rolled
from posenc.positions.skipping import skipping
from posenc.positions.static import in_slots
from posenc.positions.tokens import Tokens
from posenc.positions.varlen import last_of_each


class Builder:
    """The constructors of `Positions`."""

    def __init__(
        self, queries: Tokens, keys: Tokens, causal: bool, extent: int | None, unit_step: bool
    ) -> None: ...

    @classmethod
    def build(
        cls,
        q_len: int | None = None,
        k_len: int | None = None,
        *,
        causal: bool = False,
        past: int | None = None,
        attention_mask: Tensor | None = None,
        documents: Tensor | None = None,
        lengths: Sequence[int] | Tensor | None = None,
        cu_seqlens: Sequence[int] | Tensor | None = None,
        ids: Tensor | None = None,
        start: int = 0,
        extent: int | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """Positions from what is at hand; the queries are the last q_len of the k_len tokens.

        q_len, k_len    numbers of queries and keys; k_len defaults to q_len, or to the tensors'
        past            how many tokens came before the queries, as in decoding and in prefilling
                        by chunks: k_len = past + q_len
        attention_mask  (b, k_len), nonzero for real tokens; padding on the left or on the right.
                        Real tokens count from 0, so padding changes nothing
        documents       (k_len,) or (b, k_len): one number per packed document, contiguous;
                        positions restart in each
        lengths         the same for one row: the lengths of its documents, in order
        cu_seqlens      the same, as flash-attn takes them: (documents + 1,), from 0 to k_len
        ids             coordinates (k_len,), (b, k_len) or (b, k_len, axes) as they are
        start           position of the first token of each sequence, where it is not 0: RoBERTa
                        starts at padding_idx + 1, BART and OPT at 2
        extent          a bound on positions + 1, where they may not be read (inside a compiled
                        graph); encodings that depend on the length of the input take it as that

        Raises PositionsError for masks with holes, documents that reappear, lengths that do not
        add up, negative ids, positions beyond the extent, more queries than keys, and tensors of
        different batches or devices.
        """
        call = "Positions.build"
        packed = {"documents": documents, "lengths": lengths, "cu_seqlens": cu_seqlens}
        named = [name for name, value in packed.items() if value is not None]
        if len(named) > 1:
            raise PositionsError(f"{call} takes {' or '.join(named)}, not both")
        if start < 0 or (ids is not None and start):
            raise PositionsError(
                f"{call}(start={start}): positions are counted from a start >= 0; ids are taken as "
                f"they are, so add {start} to them instead"
            )
        told = {"attention_mask": attention_mask, "ids": ids, "documents": documents}
        cu = None if lengths is None else summed(lengths, device)
        cu = cu if cu_seqlens is None else cumulative(cu_seqlens, device)
        if cu is not None:
            told[named[0]] = documents = documents_between(cu, k_len or q_len, call)
        given = {name: value for name, value in told.items() if value is not None}
        q_len, k_len = sizes(given, q_len, k_len, past)
        device = device_of(call, given, device)
        keys, bound = arranged(k_len, attention_mask, documents, ids, start, extent, device)
        return cls(keys.last(q_len), keys, causal, bound, unit_step=ids is None)

    @classmethod
    def varlen(
        cls,
        cu_seqlens_q: Sequence[int] | Tensor,
        cu_seqlens_k: Sequence[int] | Tensor,
        *,
        causal: bool = False,
        q_len: int | None = None,
        k_len: int | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """Packed documents, whose queries are the last tokens of each, as flash-attn takes them.

        cu_seqlens_*  cumulative lengths (documents + 1,) of queries and of keys: chunked prefill or
                      decoding of several sequences in one row
        q_len, k_len  where they end; needed inside a compiled graph alone

        Raises PositionsError where they do not start at 0, are not sorted, or differ in their
        number of documents, and for a document of more queries than keys.
        """
        queries, keys = last_of_each(cu_seqlens_q, cu_seqlens_k, q_len, k_len, device)
        return cls(queries, keys, causal, None, unit_step=True)

    @classmethod
    def static(cls, q_len: int, slots: int, past: Tensor | int) -> Self:
        """New tokens in a cache of fixed size, causal; one compiled graph serves all steps.

        Key n is slot n of the cache, and token n of its row. q_len new tokens of each row are in
        its slots past .. past + q_len - 1; slots beyond are not seen yet.

        past  how many tokens came before: a whole number, () for all rows or (b,) for each

        Raises PositionsError where the new tokens do not fit.
        """
        queries, keys = in_slots(q_len, slots, past)
        return cls(queries, keys, True, None, unit_step=True)

    @classmethod
    def rolling(
        cls,
        q_len: int = 1,
        *,
        past: int,
        window: int,
        sinks: int = 0,
        renumbered: bool = False,
        extent: int | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """What is left in a rolling cache when q_len tokens come after `past` others; causal.

        Keys are the first `sinks` tokens, the window - 1 before the new ones, and the new ones: at
        q_len = 1 sinks + window tokens. More queries than one also need
        [SlidingWindow(window), Sinks(sinks)] to see no more than they would one by one.

        renumbered  tokens stand where the cache holds them, 0, 1, 2, ..., as if those dropped had
                    never been (StreamingLLM); else they keep their positions
        extent      as in `build`

        Raises PositionsError for sizes below these, and positions beyond the extent.
        Source: Xiao et al. 2024, arXiv:2309.17453, section 3.2.
        """
        keys, dropped, extent = rolled(q_len, past, window, sinks, renumbered, extent, device)
        unit_step = not renumbered or dropped == 0
        return cls(keys.last(q_len), keys, True, extent, unit_step)

    @classmethod
    def mrope(
        cls,
        token_types: Tensor,
        images: Tensor | None = None,
        videos: Tensor | None = None,
        *,
        merge: int = 1,
        frame_step: float | Tensor = 1.0,
        frames_apart: bool = False,
        text_after: TextAfter = "largest",
        q_len: int | None = None,
        causal: bool = False,
        attention_mask: Tensor | None = None,
        extent: int | None = None,
    ) -> Self:
        """Text with images and videos, as coordinates (b, t, 3) of time, row and column.

        Text moves all three by 1. A token of an image is at the position where the image begins
        plus its (frame, row, column); text goes on after the largest of them, so that an image
        takes max(rows, columns) positions, however many tokens it has.

        token_types   (b, k_len): 0 text, 1 image, 2 video (transformers' mm_token_type_ids)
        images        (n, 3) time, height and width of each image of the batch, in reading order
                      (image_grid_thw); videos the same (video_grid_thw)
        merge         by which height and width shrink from these grids to tokens
                      (spatial_merge_size: 2 in Qwen's models)
        frame_step    positions from frame to frame of a video, or of each video, rounded down
                      (Qwen2.5-VL: tokens_per_second * second_per_grid_ts)
        frames_apart  the frames of a video are separate, each after its timestamp (Qwen3-VL)
        text_after    "largest" is the paper; "side" takes max(rows, columns) for videos too, as
                      transformers does since version 5, so that text may share their times
        q_len         the queries are the last ones: pass all tokens so far to decode or prefill by
                      chunks
        attention_mask, extent   as in `build`

        Raises PositionsError for grids that do not add up to the tokens, that the merge size does
        not divide, and for images that are cut.
        Source: Wang et al. 2024, arXiv:2409.12191, section 2.1.
        """
        ids = time_row_column(
            token_types,
            images,
            videos,
            attention_mask,
            merge=merge,
            frame_step=frame_step,
            frames_apart=frames_apart,
            text_after=text_after,
        )
        return cls.build(
            q_len, ids=ids, attention_mask=attention_mask, causal=causal, extent=extent
        )

    @classmethod
    def random(
        cls,
        length: int | None = None,
        *,
        longest: int,
        batch: int | None = None,
        attention_mask: Tensor | None = None,
        causal: bool = False,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """Random positions in order: a short input trains those of a long one.

        Each row gets a uniform subset of 0 .. longest - 1, sorted, as large as it has tokens.

        length          the number of tokens, where no attention_mask tells
        longest         one more than the largest position, the length to be ready for
        batch           how many rows draw of their own; None: one draw for all of them
        attention_mask  (b, length): rows draw of their own, for their real tokens
        generator       where the numbers come from: torch.Generator().manual_seed(seed)

        Raises PositionsError for longest < length.
        Source: Ruoss et al. 2023, arXiv:2305.16843, section 3; their positions count from 1.
        """
        order, real = rows_to_draw(
            "Positions.random", length, batch, attention_mask, generator, device
        )
        ids = randomised(order, real, longest, generator)
        ids = ids[0] if batch is None and attention_mask is None else ids
        keys, _ = arranged(order.shape[1], attention_mask, None, ids, 0, None, None)
        return cls(keys, keys, causal, longest, unit_step=False)

    @classmethod
    def skipping(
        cls,
        length: int | None = None,
        *,
        longest: int,
        chunks: int = 2,
        batch: int | None = None,
        attention_mask: Tensor | None = None,
        causal: bool = False,
        generator: torch.Generator | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """Positions that skip ahead between chunks, so that a short input spans a long one.

            position[i] = i + u[chunk of i],   u[0] = 0,   u[n] ~ U{u[n - 1] .. longest - length}

        Chunks begin at a uniform choice of tokens. Arguments are those of `random`.

        Raises PositionsError unless 1 <= chunks <= length <= longest.
        Source: Zhu et al. 2024 (PoSE), arXiv:2309.10400, section 3.2.
        """
        order, real = rows_to_draw(
            "Positions.skipping", length, batch, attention_mask, generator, device
        )
        ids = skipping(order, real, longest, chunks, generator)
        ids = ids[0] if batch is None and attention_mask is None else ids
        keys, _ = arranged(order.shape[1], attention_mask, None, ids, 0, None, None)
        return cls(keys, keys, causal, longest, unit_step=False)
