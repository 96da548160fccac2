"""A safetensors file copied in file order, the heads of some tensors reordered on the way."""

from collections.abc import Callable, Mapping
from io import FileIO
from itertools import groupby
from typing import IO

from posenc.conversion.header import Entry, Header
from posenc.conversion.plan import Turned
from posenc.errors import ConversionError

# Small enough to stay in the cache between reading, reordering and writing.
CHUNK = 2**21
# Pieces of fewer bytes than these, and as many, are worth loading torch; Python moves the others.
NARROW, MANY = 512, 2**16


def convert_file(
    header: Header, turned: Mapping[str, Turned], target: IO[bytes], wrote: Callable[[int], None]
) -> None:
    """Write the file of `header` to `target`, its `turned` tensors in their new layout.

    Sizes, dtypes and order do not change, so the header is copied as it stands. Memory: two chunks.
    """
    with header.path.open("rb", buffering=0) as file:
        stream = _Stream(header, file, target, wrote)
        stream.copy(0, header.data)
        for entry in header.entries:
            if entry.name in turned:
                stream.turn(entry, turned[entry.name])
            else:
                stream.copy(entry.begin, entry.end)


class _Stream:
    def __init__(
        self, header: Header, source: FileIO, target: IO[bytes], wrote: Callable[[int], None]
    ) -> None:
        self.header, self.source, self.target, self.wrote = header, source, target, wrote
        self.old = memoryview(bytearray(CHUNK))
        self.new = memoryview(bytearray(CHUNK))

    def copy(self, begin: int, end: int) -> None:
        """Bytes begin to end of the source, as they are."""
        for at in range(begin, end, CHUNK):
            self._write(self._read(at, min(CHUNK, end - at)))

    def turn(self, entry: Entry, turned: Turned) -> None:
        """The tensor with its heads reordered."""
        many = entry.end - entry.begin >= MANY * turned.width
        if many and turned.width < NARROW and turned.period <= CHUNK:
            self._turn_in_blocks(entry, turned)
        else:
            self._turn_by_heads(entry, turned)

    def _turn_by_heads(self, entry: Entry, turned: Turned) -> None:
        """Piece by piece; heads larger than a chunk straight from the file."""
        order, width, size = turned.change.order, turned.width, turned.size
        for head, at in enumerate(range(entry.begin, entry.end, size)):
            if not turned.turns[head % len(turned.turns)]:
                self.copy(at, at + size)
            elif size > CHUNK:
                for piece in order:
                    self.copy(at + piece * width, at + (piece + 1) * width)
            else:
                old, new = self._read(at, size), self.new[:size]
                for to, source in enumerate(order):
                    new[to * width : (to + 1) * width] = old[source * width : (source + 1) * width]
                self._write(new)

    def _turn_in_blocks(self, entry: Entry, turned: Turned) -> None:
        """As many heads at once as a chunk holds; Python alone takes minutes for a few GiB."""
        import torch

        types = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
        item, dtype = next((n, dtype) for n, dtype in types.items() if turned.width % n == 0)
        shape = (-1, len(turned.turns), turned.change.head_dim, turned.width // item)
        runs, first = [], 0
        for turns, run in groupby(turned.turns):
            heads = slice(first, first := first + len(list(run)))
            runs.append((heads, turned.change.moves if turns else ((slice(None),) * 2,)))
        step = CHUNK // turned.period * turned.period
        for at in range(entry.begin, entry.end, step):
            old = self._read(at, min(step, entry.end - at))
            new = self.new[: len(old)]
            before, after = (torch.frombuffer(x, dtype=dtype).view(shape) for x in (old, new))
            for heads, moves in runs:
                for to, source in moves:
                    after[:, heads, to] = before[:, heads, source]
            self._write(new)

    def _read(self, at: int, size: int) -> memoryview:
        self.source.seek(at)
        chunk, filled = self.old[:size], 0
        while filled < size:
            count = self.source.readinto(chunk[filled:])
            if not count:
                raise ConversionError(
                    f"{self.header.path} ended at byte {at + filled} of {self.header.size}: "
                    "it changed while it was read"
                )
            filled += count
        return chunk

    def _write(self, chunk: memoryview) -> None:
        self.target.write(chunk)
        self.wrote(len(chunk))
