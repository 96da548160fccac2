"""A safetensors file copied in file order, the heads of some tensors reordered on the way."""

from collections.abc import Callable, Mapping
from typing import IO

from posenc.conversion.header import Header
from posenc.conversion.plan import Reordered
from posenc.errors import ConversionError

# Small enough to stay in the cache between reading, reordering and writing.
CHUNK = 2**21
# Rows of fewer bytes are reordered in memory, many at once; wider ones are read in their new order.
NARROW = 512
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
    with header.path.open("rb", buffering=0) as source:

        def read(offset: int, size: int) -> bytes:
            source.seek(offset)
            data = b""
            while len(data) < size:
                more = source.read(size - len(data))
                if not more:
                    raise ConversionError(
                        f"{header.path} ended at byte {offset + len(data)} of {header.size}: "
                        "it changed while it was read"
                    )
                data += more
            return data

        def write(data: bytes | bytearray) -> None:
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
            elif heads.width >= NARROW:
                for offset in range(entry.begin, entry.end, heads.period):
                    for row in heads.rows:
                        copy(offset + row * heads.width, offset + (row + 1) * heads.width)
            else:
                step = max(1, CHUNK // heads.period) * heads.period
                for offset in range(entry.begin, entry.end, step):
                    write(_reorder(read(offset, min(step, entry.end - offset)), heads))


def _reorder(old: bytes, heads: Reordered) -> bytes | bytearray:
    """Whole periods of a tensor, their rows in the new order."""
    width = heads.width
    if len(old) < MANY * width:
        starts = range(0, len(old), heads.period)
        rows = (offset + row * width for offset in starts for row in heads.rows)
        return b"".join(old[row : row + width] for row in rows)
    import torch

    types = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
    item, dtype = next((size, dtype) for size, dtype in types.items() if width % size == 0)
    shape = (-1, len(heads.rows), width // item)
    new = bytearray(old)
    before, after = (
        torch.frombuffer(data, dtype=dtype).view(shape) for data in (bytearray(old), new)
    )
    torch.index_select(before, 1, torch.tensor(heads.rows), out=after)
    return new
