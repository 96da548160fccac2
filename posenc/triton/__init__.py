"""Triton kernels for NVIDIA GPUs; Triton's interpreter runs them on CPU tensors.

Nothing here is imported before a tensor on a GPU asks for it: `import posenc` needs no Triton.
"""
