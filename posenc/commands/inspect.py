"""`posenc inspect`: what positions do in a trained model."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from posenc.commands.app import errors
from posenc.errors import SettingError


def inspect(
    model: Annotated[
        Path, Argument(help="A folder with config.json and safetensors, or a GGUF file.")
    ],
    text: Annotated[
        Path | None, Option(help="A file that the model is to read.", show_default="posenc's own")
    ] = None,
    tokens: Annotated[
        int | None, Option(help="So many tokens of it.", show_default="256, or what it takes")
    ] = None,
    layers: Annotated[
        str | None, Option(help="Layers to look at, as in 0,4-7.", show_default="all")
    ] = None,
    out: Annotated[Path, Option(help="Folder of the results.")] = Path("posenc-inspect"),
    as_json: Annotated[
        bool, Option("--json", help="Print inspect.json; progress goes to stderr.")
    ] = False,
) -> None:
    """Look into a trained model: what positions do to its tables, scores, attention and output."""
    with errors():
        chosen = _numbers(layers)
        from posenc.inspection.run import inspect as run

        command = shlex.join(["posenc", *sys.argv[1:]])
        outcome = run(model, out, command, text=text, tokens=tokens, layers=chosen)
    if as_json:
        print(json.dumps(outcome.data, indent=2))
    else:
        print("\n".join(outcome.data["summary"]))
        print(f"page: {outcome.page}")


def _numbers(layers: str | None) -> set[int] | None:
    """{0, 4, 5, 6, 7} of "0,4-7"."""
    if layers is None:
        return None
    try:
        spans = [part.strip().partition("-") for part in layers.split(",")]
        return {n for low, dash, high in spans for n in range(int(low), int(high or low) + 1)}
    except ValueError:
        raise SettingError(
            f"inspect --layers {layers}: numbers and ranges between commas are needed, as in 0,4-7"
        ) from None
