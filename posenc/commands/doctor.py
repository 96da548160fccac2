"""`posenc doctor`: what is wrong with a model's positions, by its configuration."""

import json
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from posenc.commands.app import AsJson, errors
from posenc.commands.language import InLanguage, sayable


def doctor(
    path: Annotated[Path, Argument(help="A config.json, a GGUF file, or the folder of a model.")],
    target_length: Annotated[
        int | None,
        Option(help="How many tokens it is to take.", show_default="as many as the file states"),
    ] = None,
    engine: Annotated[
        str | None,
        Option(help="Engines that are to run it, with commas between.", show_default="all"),
    ] = None,
    language: InLanguage = "en",
    weights: Annotated[
        bool, Option("--weights", help="Read the weights too: their frequencies and layout.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Tell what is wrong with a model's positions and what engines drop; exit code 1 if grave."""
    with errors():
        from posenc.models.doctor import examine
        from posenc.models.doctor.engines import ENGINES
        from posenc.models.doctor.report import as_json as plain
        from posenc.models.doctor.report import lines

        names = list(ENGINES)
        if engine is not None:
            names = [x.strip() for x in engine.split(",") if x.strip()] or [engine]
        examination = examine(path, target_length=target_length, engines=names, weights=weights)
    if as_json:
        print(json.dumps(plain(examination), indent=2))
    else:
        print("\n".join(lines(examination, sayable(language))))
    if not examination.sound:
        raise typer.Exit(1)
