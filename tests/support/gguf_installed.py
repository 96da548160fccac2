"""GGUF's own package, which a test is skipped without."""

import importlib
import importlib.util
from types import ModuleType

import pytest


def gguf_package() -> ModuleType:
    """The reader and writer of llama.cpp's project."""
    if importlib.util.find_spec("gguf") is None:
        pytest.skip("needs gguf, to read and write what posenc reads")
    return importlib.import_module("gguf")
