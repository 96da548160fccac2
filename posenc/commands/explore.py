"""`posenc explore`: the page on which one sees how position encodings work."""

import webbrowser
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from typer import Argument, Option

from posenc.commands.app import errors
from posenc.commands.settings import strangers
from posenc.errors import SettingError, UnknownNameError


def explore(
    encodings: Annotated[
        list[str] | None,
        Argument(metavar="[ENCODING]...", help="Your own to add: package.module:Class."),
    ] = None,
    out: Annotated[Path, Option(help="The file to write.")] = Path("posenc-explorer.html"),
    panel: Annotated[
        str | None, Option(help="The panel to begin with: circle, waves, bias, ...")
    ] = None,
    language: Annotated[
        Literal["en", "zh"] | None,
        Option("--language", "--lang", help="Of the page.", show_default="the browser's"),
    ] = None,
    show: Annotated[bool, Option("--open/--no-open", help="Open it in the browser.")] = True,
) -> None:
    """Write the explorer, one HTML file that needs no network, and open it in the browser.

    An encoding of your own is shown by a table of its first example.
    """
    with errors():
        from posenc.explorer import bundle

        if panel is not None and panel not in bundle.panels():
            raise UnknownNameError("panel", panel, bundle.panels())
        members = _tables(encodings or [])
        try:
            bundle.write(out, _lessons(), members)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
            raise SettingError(
                f"explore --out {out}: it cannot be written ({error.strerror}): "
                "give a file in a folder that is there"
            ) from None
    # The story is of posenc's own encodings: others are shown in the workshop.
    panel = panel or ("waves" if members else None)
    chosen = {key: value for key, value in (("panel", panel), ("lang", language)) if value}
    chosen |= {"a": next(iter(members))} if members else {}
    address = out.resolve().as_uri() + (f"#{urlencode(chosen)}" if chosen else "")
    print(f"page: {out}")
    if show and not webbrowser.open(address):
        print(f"no browser could be started: open {address}")


def _tables(names: list[str]) -> dict[str, Any]:
    """What the page is told of encodings that it does not have; torch is needed for that alone."""
    if not names:
        return {}
    from posenc.catalogue import find
    from posenc.explorer.tables import tables

    told: dict[str, Any] = {}
    for name in names:
        with strangers(f"encoding {name!r} cannot be shown"):
            told |= tables([find(name)])
    return told


def _lessons() -> str:
    """Where lessons are: the built docs of this checkout, if it is one and has them."""
    built = Path(__file__).parents[2] / "docs" / "build" / "html"
    if not (built / "en" / "learn").is_dir():
        return ""
    return f"{built.as_uri()}/{{page}}.html"
