"""What the server of worker processes loads once, so that no run has to."""

import torch

import posenc.lab.run as run

# The first optimizer of a process makes torch import its compiler, which takes seconds.
torch.optim.AdamW([torch.zeros(1)])

__all__ = ["run"]
