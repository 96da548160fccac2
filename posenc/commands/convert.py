"""`posenc convert`: weights in the other rotary layout, or a configuration for another engine."""

import dataclasses
import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from typer import Argument, Option

from posenc.atomic_files import whole_file
from posenc.commands.app import AsJson, errors
from posenc.commands.language import InLanguage, sayable
from posenc.errors import SettingError, shown
from posenc.words import Language, Texts, Words

Layout = Literal["half", "interleaved"]
Target = Literal["half", "interleaved", "hf4", "hf5", "vllm", "sglang", "gguf", "llama.cpp", "mlx"]

TEXTS: Texts = {
    "converting": ("converting", "正在转换"),
    "converted": (
        "{out}: {changed:# tensor|# tensors} from {source} to {target}, such as {first}",
        "{out}：{changed} 个张量从 {source} 改为 {target}，如 {first}",
    ),
    "line": ("{verdict}: {about}: {words}", "{verdict}：{about}：{words}"),
    "exact": ("exact", "完全一致"),
    "approximate": ("approximate", "近似"),
    "impossible": ("impossible", "做不到"),
}


def convert(
    path: Annotated[
        Path, Argument(help="A safetensors file, the folder of a model, or a config.json.")
    ],
    target: Annotated[
        Target, Option("--to", help="Layout of the copy, or who is to read the configuration.")
    ],
    out: Annotated[
        Path | None,
        Argument(
            help="The new file or folder; it must not exist.",
            show_default="for an engine: stdout",
        ),
    ] = None,
    source: Annotated[
        Layout | None,
        Option("--from", help="Layout of the weights.", show_default="none: for an engine"),
    ] = None,
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
        str, Option(help="How tensors are named: llama, meta, deepseek, gpt_neox, phi3, chatglm.")
    ] = "llama",
    pattern: Annotated[
        str | None, Option(help="Instead: a regular expression that finds their names.")
    ] = None,
    columns: Annotated[str | None, Option(help="The same, for those stored (in, out).")] = None,
    as_json: AsJson = False,
    language: InLanguage = "en",
) -> None:
    """Copy weights in the other rotary layout, or write a configuration for another engine.

    With --from and a layout for --to, weights are copied. Without --from the configuration alone
    is written as the engine of --to reads it, and what is lost on the way is told on stderr.
    """
    if target not in ("half", "interleaved"):
        with errors():
            of_weights = {
                "--from": source,
                "--head-dim": head_dim,
                "--rotary-dim": rotary_dim,
                "--start": start,
                "--heads": heads,
                "--kv-heads": kv_heads,
                "--pattern": pattern,
                "--columns": columns,
            }
            for name, value in of_weights.items():
                if value is not None:
                    raise SettingError(f"{name} speaks of weights, and --to {target} of none")
            _configuration(path, out, target, as_json, sayable(language, sys.stderr))
        return
    with errors():
        if source is None or out is None:
            raise SettingError(
                f"--to {target} is a layout of weights: say --from, and where to write the copy"
            )
        from posenc.conversion.checkpoint import convert_checkpoint
        from posenc.conversion.names import Names

        # From here on Ctrl-C and kill have an unfinished file to remove.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        console = Console(stderr=True)
        say = Words(sayable(language, sys.stderr), TEXTS)
        # A bar on a terminal, nothing anywhere else.
        with Progress(
            *(
                TextColumn(say("converting")),
                BarColumn(),
                DownloadColumn(True),
                TimeRemainingColumn(),
            ),
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
        say, first = Words(sayable(language), TEXTS), shown(changed[0])
        told = {"out": out, "changed": len(changed), "first": first}
        print(say("converted", **told, source=source, target=target))


def _configuration(
    path: Path, out: Path | None, target: str, as_json: bool, language: Language
) -> None:
    from posenc.models.write import write

    if out is not None and (out.exists() or out.is_symlink()):
        raise SettingError(f"{out} exists already: give a new place")
    written, say = write(path, target), Words(language, TEXTS)
    for line in written.lines:
        words = line.words[say.column]
        print(
            say("line", verdict=say(line.verdict), about=line.about, words=words), file=sys.stderr
        )
    if as_json:
        content = json.dumps(dataclasses.asdict(written), indent=2)
    elif written.config is not None:
        content = json.dumps(written.config, indent=2, ensure_ascii=False)
    elif written.flags:
        content = shlex.join(written.flags)
    else:
        content = json.dumps(_gguf(written), indent=2)
    if out is None:
        print(content)
    else:
        with whole_file(out, new=True) as file:
            file.write(content.encode() + b"\n")


def _gguf(written: Any) -> dict[str, Any]:
    return {**written.keys, **written.tensors}
