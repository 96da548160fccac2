"""Scores between equal tokens, for encodings of every kind."""

from jaxtyping import Float64
from torch import Tensor

from posenc.analysis.measure.curves import token_scores
from posenc.analysis.measure.tables import inner_products
from posenc.analysis.measure.vectors import position_table
from posenc.encoding import Encoding
from posenc.lowering import embeds_only


def equal_scores(encoding: Encoding, length: int) -> Float64[Tensor, "h t t"]:
    """What position makes of the score of every two tokens, if the tokens are equal.

    Of an absolute encoding it is p[i] . p[j], `inner_products` of its `position_table`, one head;
    of any other the `token_scores` of q = k = ones, -inf where a key is not visible.
    """
    if embeds_only(encoding):
        return inner_products(position_table(encoding, length))[None]
    return token_scores(encoding, length)
