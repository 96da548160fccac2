"""Analysis stands on the library alone."""

import pkgutil
import subprocess
import sys

import posenc.analysis

FOREIGN = ("posenc.testing", "posenc.lab", "posenc.bench", "posenc.explorer", "matplotlib")


def test_analysis_imports_no_checks_and_no_lab() -> None:
    """Figures need matplotlib, and nothing else does."""
    modules = [
        module.name
        for module in pkgutil.walk_packages(posenc.analysis.__path__, "posenc.analysis.")
        if not module.name.startswith("posenc.analysis.plot")
    ]
    assert "posenc.analysis.measure.budget" in modules
    code = f"""
import importlib, sys
for name in {modules!r}:
    importlib.import_module(name)
print([name for name in sys.modules if name.startswith({FOREIGN!r})])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
