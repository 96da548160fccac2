"""`posenc inspect`: what positions do in a trained model."""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table
from typer import Argument, Option

from posenc.commands.app import errors, print_table
from posenc.commands.language import InLanguage, sayable
from posenc.errors import SettingError
from posenc.words import Words


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
    language: InLanguage = "en",
) -> None:
    """Look into a trained model: what positions do to its tables, scores, attention and output."""
    with errors():
        chosen = _numbers(layers)
        from posenc.inspection.run import inspect as run
        from posenc.inspection.sentences import sentences
        from posenc.inspection.words import TEXTS

        command = shlex.join(["posenc", *sys.argv[1:]])
        told = Words(sayable(language, sys.stderr), TEXTS)
        with Console(stderr=True).status(told("loading")) as shown:
            outcome = run(
                model, out, command, text=text, tokens=tokens, layers=chosen, language=language,
                tell=lambda layer: shown.update(told("layer_of", layer=layer)),
            )  # fmt: skip
    if as_json:
        print(json.dumps(outcome.data, indent=2))
    else:
        say = Words(sayable(language), TEXTS)
        _print_layers(outcome.data, say)
        print(*sentences(outcome.data, say), say("page", path=outcome.page), sep="\n")


def _numbers(layers: str | None) -> set[int] | None:
    """{0, 4, 5, 6, 7} of "0,4-7"."""
    if layers is None:
        return None
    chosen: set[int] = set()
    for part in layers.split(","):
        low, dash, high = part.strip().partition("-")
        ends = (low, high) if dash else (low, low)
        # No model has layers of five digits.
        if not all(end.isdecimal() and len(end) < 5 for end in ends) or int(ends[0]) > int(ends[1]):
            raise SettingError(
                f"inspect --layers {layers}: numbers and ranges between commas are needed, as in "
                "0,4-7"
            )
        chosen.update(range(int(ends[0]), int(ends[1]) + 1))
    return chosen


def _print_layers(data: Mapping[str, Any], say: Words) -> None:
    """A row for each layer: means over its heads."""
    from posenc.inspection.heads import BEYOND, ENTROPY, FIRST, ITSELF, PREVIOUS, STAYS
    from posenc.inspection.sections import shown

    measures = (*STAYS[:2], FIRST, ITSELF, PREVIOUS, BEYOND, ENTROPY)
    if not data["layers"]:
        return
    table = Table(say("head_layer"), *(say(f"head_{measure.key}") for measure in measures))
    for layer in data["layers"]:
        cells = (shown(measure, measure.mean([layer])) for measure in measures)
        table.add_row(str(layer["layer"]), *cells)
    print_table(table)
