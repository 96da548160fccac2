"""The mask rules of all terms as one."""

from collections.abc import Sequence

from posenc.errors import UnsupportedError
from posenc.mask_rules import Chunk, Prefix, Sink, Window
from posenc.normal_form.form import Visibility
from posenc.terms import Mask, Term


def visibility_of(terms: Sequence[Term], causal: bool) -> Visibility:
    """The narrowest window and chunk, the most sinks and the longest prefix.

    Raises UnsupportedError for chunks that do not lie in each other.
    """
    rules = [term.rule for term in terms if isinstance(term, Mask)]
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
        causal,
        min(widths, default=None),
        max(sinks, default=0),
        max(prefixes, default=0),
        chunks[0] if chunks else None,
    )
