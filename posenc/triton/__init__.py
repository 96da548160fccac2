"""Triton kernels for NVIDIA GPUs; Triton's interpreter runs them on CPU tensors.

Nothing else here is imported before a tensor on a GPU asks for it: `import posenc` needs no Triton.
"""

from importlib.util import find_spec

# Found once: the search through the folders of packages takes longer than a launch.
INSTALLED = find_spec("triton") is not None
