"""The entry point of the `posenc` command; the commands themselves are in `posenc.commands`."""

import codecs
import errno
import io
import os
import signal
import sys
import warnings

# What stands for a sign of numbers and tables where the terminal's letters lack it.
SIGNS = {
    "\N{PLUS-MINUS SIGN}": "+-",
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{DAGGER}": "*",
    "\N{HORIZONTAL ELLIPSIS}": "...",
}


def main() -> None:
    """Run the command line; without typer, say how to get it."""
    # An interrupt in the middle of importing torch would be swallowed there; so it just ends us.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # torch's remark on a package that it can do without; posenc[cli] does not bring it.
    warnings.filterwarnings("ignore", "Failed to initialize NumPy")
    # "package.module:Class" is looked up from where the user stands, as `python -m` does.
    sys.path.insert(0, os.getcwd())
    for name in ("stdout", "stderr"):
        # Closed, as by >&-: Python has None there, and a file opened later would get its place.
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(nowhere, "w", encoding="utf-8"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        _write_signs_plainly(sys.stdout)
    try:
        try:
            _run()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        # What was not written is not tried again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # Who closed a pipe has seen enough, as in `posenc list | head`.
        if error.errno != errno.EPIPE:
            print(f"posenc: the output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(1)


def _write_signs_plainly(stream: io.TextIOWrapper) -> None:
    """What else the stream cannot write stays an error, so that no data is changed unseen."""
    usual = codecs.lookup_error(stream.errors or "strict")

    def plain(error: UnicodeError) -> tuple[str | bytes, int]:
        if isinstance(error, UnicodeEncodeError) and error.object[error.start] in SIGNS:
            return SIGNS[error.object[error.start]], error.start + 1
        return usual(error)

    codecs.register_error("posenc", plain)
    stream.reconfigure(errors="posenc")


def _run() -> None:
    try:
        if sys.argv[1:] == ["--help"]:
            from posenc.command_help import print_alone

            print_alone()
            return
        from posenc.commands import app

        app()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("typer", "rich"):
            raise
        from posenc.errors import installing

        print(f"The command line needs {missing}: {installing('cli')}", file=sys.stderr)
        sys.exit(1)
