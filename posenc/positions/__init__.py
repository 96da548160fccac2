"""Where tokens are: `Positions` of two sides, and one file for each thing that they are made from.

Values are checked once, when Positions are built, and never in a traced graph.
"""

from posenc.positions.documents import Documents as Documents
from posenc.positions.positions import Positions as Positions
from posenc.positions.positions import as_positions as as_positions
from posenc.positions.positions import checked as checked
from posenc.positions.tokens import Tokens as Tokens
from posenc.positions.tokens import one_axis as one_axis
