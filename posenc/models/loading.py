"""A trained model and its tokenizer, from files on this machine."""

from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import torch

from posenc.errors import ConfigError, UnsupportedError, installing
from posenc.models.attach.record import replaced_in
from posenc.models.read.gguf.header import is_gguf, read_gguf_header


class Loaded(NamedTuple):
    """A model of transformers, in evaluation, and its tokenizer, None where the folder has none."""

    model: Any
    tokenizer: Any


def load_model(source: str | PathLike[str], *, dtype: torch.dtype = torch.float32) -> Loaded:
    """The model in a folder with config.json and safetensors, or in a GGUF file.

    Nothing is fetched. Raises ConfigError for what is no model, or one that lacks weights, and
    UnsupportedError where transformers is missing, which the extra "models" brings.
    """
    transformers = _transformers()
    path = Path(source)
    file = {"gguf_file": path.name} if path.is_file() else {}
    folder = path.parent if path.is_file() else path
    if not folder.is_dir() or not (file or (folder / "config.json").is_file()):
        raise ConfigError(
            f"{path} is no model: give a folder with config.json and safetensors, or a GGUF file"
        )
    if is_gguf(path):
        read_gguf_header(path)
    local: dict[str, Any] = {"local_files_only": True, **file}
    try:
        config = transformers.AutoConfig.from_pretrained(folder, **local)
        name = next(iter(config.architectures or ()), "AutoModelForCausalLM")
        kind = getattr(transformers, name, transformers.AutoModelForCausalLM)
        unpacked: dict[str, Any] = {}
        if file and hasattr(transformers, "GgufConfig"):
            # Where it would keep the file's blocks, which can be neither saved nor trained.
            unpacked["quantization_config"] = transformers.GgufConfig(dequantize=True)
        model, told = kind.from_pretrained(
            folder, config=config, dtype=dtype, output_loading_info=True, **unpacked, **local
        )
    except Exception as error:
        # What a damaged file makes its readers raise is of no common class.
        raise ConfigError(f"{path} is no model that transformers loads: {error}") from error
    # A table that posenc replaced is not in the files of a model that was saved with it attached.
    replaced = replaced_in(getattr(config, "posenc", None))
    missing = sorted(x for x in told["missing_keys"] if not f".{x}".endswith(replaced))
    if missing:
        raise ConfigError(
            f"{path} lacks {len(missing)} weights of {type(model).__name__}, "
            f"{', '.join(missing[:3])} among them, which would be drawn at "
            "random: give all parts of the file or folder"
        )
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **local)
    except (OSError, ValueError, ImportError):
        tokenizer = None
    if tokenizer is not None and not file and _knows_no_words(tokenizer, folder):
        tokenizer = None
    return Loaded(model.eval(), tokenizer)


def _knows_no_words(tokenizer: Any, folder: Path) -> bool:
    """Whether there is no file of its vocabulary; transformers makes some of special tokens alone.

    ByT5's and CANINE's ask for none.
    """
    names = set(tokenizer.vocab_files_names.values())
    # What any may be saved as.
    others = {"tokenizer.json", "tokenizer.model", "tekken.json"}
    return bool(names) and not any((folder / name).is_file() for name in names | others)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise UnsupportedError(
            f"models are read by transformers, which is not installed: {installing('models')}"
        ) from error
    return transformers
