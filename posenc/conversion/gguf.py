"""What to say of a GGUF file, whose weights are not converted."""

from pathlib import Path

from posenc.errors import ConfigError, UnknownNameError
from posenc.models.read.gguf.header import read_gguf_header
from posenc.models.read.gguf.reader import architecture_of, read_gguf

_INSTEAD = (
    "convert the safetensors files that it was made from, or give its tensors to "
    "posenc.convert_layout"
)


def refusal(path: Path) -> str:
    """Which layout its q and k have, whether llama.cpp's converter made it, and what to do."""
    try:
        spec = read_gguf(path)
    except UnknownNameError:
        return f"{path} is a GGUF file of an unknown architecture: {_INSTEAD}"
    except ConfigError as error:
        return f"{path} is a GGUF file, and those are not converted: {_INSTEAD} ({error})"
    turning = (layer.rotary for _, _, layer in spec.attention())
    rotary = next((x for x in turning if x is not None), None)
    if rotary is None:
        return f"{path} is a GGUF file of {spec.model_type!r}, in which nothing turns: leave it"
    permuted = architecture_of(read_gguf_header(path)).permuted
    layout = rotary.settings.get("layout", "half")
    made = (
        "permuted by llama.cpp's converter if they came from transformers, where they are half"
        if permuted
        else "as in the files that it was made from"
    )
    return (
        f"{path} is a GGUF file of {spec.model_type!r}, and those are not converted; its q and k "
        f"are {layout}, {made}: {_INSTEAD}"
    )
