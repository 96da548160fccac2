"""`posenc convert`: a checkpoint from one rotary layout to the other."""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from typer import Argument, Option

from posenc.commands.app import AsJson, errors

Layout = Literal["half", "interleaved"]


def convert(
    path: Annotated[Path, Argument(help="A safetensors file, or the folder of a model.")],
    out: Annotated[Path, Argument(help="The new file or folder; it must not exist.")],
    source: Annotated[Layout, Option("--from", help="Layout of the checkpoint.")],
    target: Annotated[Layout, Option("--to", help="Layout of the copy.")],
    head_dim: Annotated[
        int | None,
        Option(help="Dimensions of a head of q and k.", show_default="as config.json says"),
    ] = None,
    rotary_dim: Annotated[
        int | None,
        Option(help="How many of them rotate.", show_default="as config.json says, or all"),
    ] = None,
    start: Annotated[
        int | None,
        Option(help="The first that rotates; negative from the end.", show_default="0"),
    ] = None,
    heads: Annotated[
        int | None, Option(help="Query heads.", show_default="as config.json says")
    ] = None,
    kv_heads: Annotated[
        int | None, Option(help="Key heads, if fewer.", show_default="as config.json says")
    ] = None,
    names: Annotated[
        str, Option(help="How tensors are named: llama, meta, deepseek, gpt_neox, phi3.")
    ] = "llama",
    pattern: Annotated[
        str | None, Option(help="Instead: a regular expression that finds their names.")
    ] = None,
    columns: Annotated[str | None, Option(help="The same, for those stored (in, out).")] = None,
    as_json: AsJson = False,
) -> None:
    """Copy a checkpoint with its queries and keys in the other rotary layout."""
    with errors():
        from posenc.conversion.checkpoint import convert_checkpoint
        from posenc.conversion.header import shown
        from posenc.conversion.names import Names

        # From here on Ctrl-C and kill have an unfinished file to remove.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        console = Console(stderr=True)
        # A bar on a terminal, nothing anywhere else.
        with Progress(
            *(TextColumn("converting"), BarColumn(), DownloadColumn(True), TimeRemainingColumn()),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        ) as bars:
            task = bars.add_task("", total=None)
            changed = convert_checkpoint(
                path,
                out,
                source,
                target,
                head_dim=head_dim,
                rotary_dim=rotary_dim,
                start=start,
                heads=heads,
                kv_heads=kv_heads,
                names=Names(pattern, columns) if pattern or columns else names,
                progress=lambda done, total: bars.update(task, completed=done, total=total),
            )
    if as_json:
        print(json.dumps({"out": str(out), "converted": changed}, indent=2))
    else:
        first = shown(changed[0])
        print(f"{out}: {len(changed)} tensors from {source} to {target}, such as {first}")
