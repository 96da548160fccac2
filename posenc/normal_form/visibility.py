"""The mask rules of all terms as one."""

from collections.abc import Sequence
from dataclasses import dataclass

from posenc.errors import UnsupportedError
from posenc.mask_rules import Chunk, Prefix, Sink, Window
from posenc.positions import Positions
from posenc.terms import Mask, Term


@dataclass(frozen=True)
class Visibility:
    """The mask rules of all terms as one; orders, documents and padding are in the positions.

    window  None, or the narrowest width, 1 to 2**62
    sinks   the first tokens of a document that are seen in spite of the window; 0: none
    prefix  the first tokens of a document that are seen in spite of causality; 0: none
    chunk   None, or the width of chunks of orders, beyond which no key is seen

    Orders may be negative: ask sinks > 0 and prefix > 0 before order < sinks or order < prefix.
    """

    causal: bool
    window: int | None = None
    sinks: int = 0
    prefix: int = 0
    chunk: int | None = None

    @property
    def past_only(self) -> bool:
        """Whether no query sees a key of a higher order."""
        return self.causal and self.prefix == 0


def visibility_of(terms: Sequence[Term], positions: Positions) -> Visibility:
    """The narrowest window and chunk, the most sinks and the longest prefix.

    Raises UnsupportedError for chunks that do not lie in each other, and PositionsError for rules
    of queries whose order nothing tells.
    """
    rules = [term.rule for term in terms if isinstance(term, Mask)]
    if rules:
        positions.check_ordered()
    widths = [rule.width for rule in rules if isinstance(rule, Window)]
    sinks = [rule.count for rule in rules if isinstance(rule, Sink)]
    prefixes = [rule.count for rule in rules if isinstance(rule, Prefix)]
    chunks = sorted({rule.width for rule in rules if isinstance(rule, Chunk)})
    if any(width % chunks[0] for width in chunks):
        raise UnsupportedError(
            f"chunks of {' and '.join(map(str, chunks))} tokens overlap: each width must be a "
            "multiple of the narrowest, which then holds; give one of them"
        )
    return Visibility(
        positions.causal,
        min(widths, default=None),
        max(sinks, default=0),
        max(prefixes, default=0),
        chunks[0] if chunks else None,
    )
