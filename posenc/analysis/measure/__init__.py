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

from posenc.analysis.measure.biases import Bias as Bias
from posenc.analysis.measure.biases import position_bias as position_bias
from posenc.analysis.measure.biases import receptive_field as receptive_field
from posenc.analysis.measure.biases import visibility as visibility
from posenc.analysis.measure.budget import Budget as Budget
from posenc.analysis.measure.budget import budget as budget
from posenc.analysis.measure.curves import ByDistance as ByDistance
from posenc.analysis.measure.curves import Decay as Decay
from posenc.analysis.measure.curves import abel_bound as abel_bound
from posenc.analysis.measure.curves import by_distance as by_distance
from posenc.analysis.measure.curves import cosine_sum as cosine_sum
from posenc.analysis.measure.curves import decay as decay
from posenc.analysis.measure.curves import direction_sensitivity as direction_sensitivity
from posenc.analysis.measure.curves import equal_scores as equal_scores
from posenc.analysis.measure.curves import score_curve as score_curve
from posenc.analysis.measure.curves import token_scores as token_scores
from posenc.analysis.measure.permutation import equivariance_error as equivariance_error
from posenc.analysis.measure.permutation import permutation_sensitivity as permutation_sensitivity
from posenc.analysis.measure.permutation import permutations as permutations
from posenc.analysis.measure.rotations import frequencies as frequencies
from posenc.analysis.measure.rotations import largest_angles as largest_angles
from posenc.analysis.measure.rotations import pair_cosines as pair_cosines
from posenc.analysis.measure.rotations import relative_angles as relative_angles
from posenc.analysis.measure.rotations import turns as turns
from posenc.analysis.measure.rotations import wavelengths as wavelengths
from posenc.analysis.measure.tables import Shift as Shift
from posenc.analysis.measure.tables import Uniqueness as Uniqueness
from posenc.analysis.measure.tables import boundedness as boundedness
from posenc.analysis.measure.tables import distance_table as distance_table
from posenc.analysis.measure.tables import groups as groups
from posenc.analysis.measure.tables import inner_products as inner_products
from posenc.analysis.measure.tables import pair_points as pair_points
from posenc.analysis.measure.tables import position_table as position_table
from posenc.analysis.measure.tables import resolution as resolution
from posenc.analysis.measure.tables import shift as shift
from posenc.analysis.measure.tables import uniqueness as uniqueness
