"""What can be measured of an encoding: tensors in, tensors out, in float64.

    from posenc.analysis import measure

    measure.uniqueness(measure.position_table(encoding, 4096), torch.bfloat16)

tables       one row per position or per distance, and what such a table is good for
curves       scores between equal tokens: decay, direction, dependence on distance alone
rotations    frequencies, wavelengths, turns, and how far pairs turn two tokens apart
biases       what position alone adds to the score, and who sees whom through several layers
permutation  how the output of a whole model follows the order of its input
budget       what is trained at one length and read at another
"""

from posenc.analysis.measure.biases import Bias, position_bias, receptive_field, visibility
from posenc.analysis.measure.budget import Budget, budget
from posenc.analysis.measure.curves import (
    ByDistance,
    Decay,
    abel_bound,
    by_distance,
    cosine_sum,
    decay,
    direction_sensitivity,
    equal_scores,
    score_curve,
    token_scores,
)
from posenc.analysis.measure.permutation import (
    equivariance_error,
    permutation_sensitivity,
    permutations,
)
from posenc.analysis.measure.rotations import (
    frequencies,
    largest_angles,
    pair_cosines,
    relative_angles,
    turns,
    wavelengths,
)
from posenc.analysis.measure.tables import (
    Shift,
    Uniqueness,
    boundedness,
    distance_table,
    groups,
    inner_products,
    pair_points,
    position_table,
    resolution,
    shift,
    uniqueness,
)

__all__ = [
    "Bias",
    "Budget",
    "ByDistance",
    "Decay",
    "Shift",
    "Uniqueness",
    "abel_bound",
    "boundedness",
    "budget",
    "by_distance",
    "cosine_sum",
    "decay",
    "direction_sensitivity",
    "distance_table",
    "equal_scores",
    "equivariance_error",
    "frequencies",
    "groups",
    "inner_products",
    "largest_angles",
    "pair_cosines",
    "pair_points",
    "permutation_sensitivity",
    "permutations",
    "position_bias",
    "position_table",
    "receptive_field",
    "relative_angles",
    "resolution",
    "score_curve",
    "shift",
    "token_scores",
    "turns",
    "uniqueness",
    "visibility",
    "wavelengths",
]
