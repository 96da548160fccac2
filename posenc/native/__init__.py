"""Kernels in C for CPUs, and the torch operators that run them.

The sources are `*.c` beside this file, built with the package by `cmake/CMakeLists.txt` into one
library with a plain C interface (`posenc.h`).
"""
