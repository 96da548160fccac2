"""A safetensors file copied in file order, the heads of some tensors reordered on the way."""

from collections.abc import Callable, Mapping
from typing import IO

from posenc.conversion.header import Header
from posenc.conversion.plan import Reordered
from posenc.errors import ConversionError

# Small enough to stay in the cache between reading, reordering and writing; at 2 MiB Linux may take
# ten times as long to write.
CHUNK = 2**20
# As many numbers are worth loading torch; Python moves fewer faster.
MANY = 2**16


def convert_file(
    header: Header,
    reordered: Mapping[str, Reordered],
    target: IO[bytes],
    wrote: Callable[[int], None],
) -> None:
    """Write the file of `header` to `target`, the tensors in `reordered` in their new layout.

    Sizes, dtypes and order do not change, so the header is copied as it stands. Memory: two chunks.
    Raises ConversionError where the file has become shorter than its header says.
    """
    # Made once: memory that is new costs as much as reading into it.
    room, other = (memoryview(bytearray(CHUNK)) for _ in range(2))
    with header.path.open("rb", buffering=0) as source:

        def read(offset: int, size: int) -> memoryview:
            source.seek(offset)
            data, done = room[:size], 0
            while done < size:
                more = source.readinto(data[done:])
                if not more:
                    raise ConversionError(
                        f"{header.path} ended at byte {offset + done} of {header.size}: "
                        "it changed while it was read"
                    )
                done += more
            return data

        def write(data: memoryview) -> None:
            target.write(data)
            wrote(len(data))

        def copy(begin: int, end: int) -> None:
            for offset in range(begin, end, CHUNK):
                write(read(offset, min(CHUNK, end - offset)))

        copy(0, header.data)
        for entry in header.entries:
            heads = reordered.get(entry.name)
            if heads is None:
                copy(entry.begin, entry.end)
            elif heads.period > CHUNK:
                # What does not fit is read in its new order.
                for offset in range(entry.begin, entry.end, heads.period):
                    for row in heads.rows:
                        copy(offset + row * heads.width, offset + (row + 1) * heads.width)
            else:
                step = CHUNK // heads.period * heads.period
                for offset in range(entry.begin, entry.end, step):
                    old = read(offset, min(step, entry.end - offset))
                    new = other[: len(old)]
                    _reorder(old, heads, new)
                    write(new)


def _reorder(old: memoryview, heads: Reordered, new: memoryview) -> None:
    """Fill `new` with whole periods of a tensor, their rows in the new order."""
    width = heads.width
    if len(old) < MANY * width:
        at = 0
        for start in range(0, len(old), heads.period):
            for row in heads.rows:
                begin = start + row * width
                new[at : at + width] = old[begin : begin + width]
                at += width
        return
    import torch

    types = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
    item, dtype = next((size, dtype) for size, dtype in types.items() if width % size == 0)
    shape = (-1, len(heads.rows), width // item)
    before, after = (torch.frombuffer(data, dtype=dtype).view(shape) for data in (old, new))
    after.copy_(before)
    # Slices are copied ten times as fast as rows that an index names.
    for to, at in heads.moves:
        after[:, to] = before[:, at]
