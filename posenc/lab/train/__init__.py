"""Train one model: the same batches in the same order for every encoding, exact after a resume.

From Python in one process: `train`. By several, which share each batch:
`torchrun -m posenc.lab.train CONFIG`.
"""

from posenc.lab.train.loop import train as train
from posenc.lab.train.optimizer import learning_rate as learning_rate
from posenc.lab.train.optimizer import make_optimizer as make_optimizer
from posenc.lab.train.record import Progress as Progress
from posenc.lab.train.record import Stop as Stop
