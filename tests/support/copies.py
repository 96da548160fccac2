"""Copies of the repository, whose own posenc is what Python is to find."""

from pathlib import Path


def hide_the_install(folder: Path) -> None:
    """With `folder` on PYTHONPATH, posenc is what lies there.

    An editable install finds it where it was installed from, whatever the path says.
    """
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "sys.meta_path[:] = [finder for finder in sys.meta_path\n"
        "    if 'posenc' not in getattr(finder, 'known_packages', ())]\n"
    )
