import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pages import DOCS

DRAWN = re.compile(r"^```\{(?:chapter|figure-of|gallery|panel)\}.*?^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lessons, how-to, corrections and glossary in both languages, without their figures.

    Those who read it are all marked `long`, so that it is built for these alone.
    """
    root = tmp_path_factory.mktemp("site")
    for language in ("en", "zh"):
        source = root / "source" / language
        for path in [
            *(DOCS / language).glob("*.md"),
            *(DOCS / language).glob("learn/*.md"),
            *(DOCS / language).glob("howto/*.md"),
        ]:
            place = source / path.relative_to(DOCS / language)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(DRAWN.sub("", path.read_text()))
        command = ["-m", "sphinx", "-Q", "-c", DOCS, "-t", language, source, root / language]
        subprocess.run([sys.executable, *command], cwd=DOCS.parent, check=True)
    return root
