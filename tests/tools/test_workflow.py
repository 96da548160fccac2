"""What the Makefile and the workflow name exists; what pyproject.toml promises is tried."""

import re
import tomllib
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text().replace("\\\n", " ")
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_module_whose_shapes_are_checked_exists() -> None:
    """A name that nothing has would be passed over in silence, and its shapes with it."""
    (names,) = re.findall(r"^SHAPED := (.*)$", MAKEFILE, re.MULTILINE)
    assert [name for name in names.split() if find_spec(f"posenc.{name}") is None] == []


def test_what_runs_without_shapes_says_so_in_its_own_file() -> None:
    """Make reads files that name these marks: a test that has one from elsewhere would not run."""
    marked = re.compile(r"mark\.(graph|unchecked|long|trained)")
    others = [path for path in (ROOT / "tests").rglob("*.py") if not path.match("test_*.py")]
    assert [path for path in others if marked.search(path.read_text())] == []


def test_every_test_runs_by_one_of_two_targets() -> None:
    """Whatever marks it has; and no expression names a mark that there is not."""
    marks = [line.partition(":")[0] for line in PROJECT["tool"]["pytest"]["ini_options"]["markers"]]
    recipes = re.findall(r"^(?:test|long): \S+\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    asked = [one or two for x in recipes for one, two in re.findall(r'-m (?:"(.+?)"|(triton))', x)]
    assert len(asked) == 4
    for has in product((False, True), repeat=len(marks)):
        named = dict(zip(marks, has, strict=True))
        chosen = [eval(expression, {}, named) for expression in asked]
        assert any(chosen), named
    steps = [step.get("run", "") for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    for expression in re.findall(r'pytest .*-m "(.+?)"', "\n".join([MAKEFILE, *steps])):
        eval(expression, {}, dict.fromkeys(marks, False))


def test_every_target_that_it_makes_exists() -> None:
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    asked = {name for step in steps for name in re.findall(r"make (\w+)", step.get("run", ""))}
    lines = re.findall(r"^make (.*)", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    of_ci = {word for line in lines for word in line.split() if word[0].isalpha()}
    assert asked >= of_ci == {"check", "test", "long", "docs", "sanitize"}
    assert [name for name in asked if not re.search(rf"^{name}:", MAKEFILE, re.MULTILINE)] == []


def test_it_tries_every_python_and_the_oldest_torch() -> None:
    matrix = WORKFLOW["jobs"]["test"]["strategy"]["matrix"]
    pythons = [
        line.rpartition(" ")[2]
        for line in PROJECT["project"]["classifiers"]
        if re.search(r"Python :: 3\.\d+$", line)
    ]
    assert matrix["python"] == pythons
    assert PROJECT["project"]["requires-python"] == f">={pythons[0]}"
    (torch,) = (one for one in PROJECT["project"]["dependencies"] if one.startswith("torch"))
    assert matrix["torch"][0].startswith(torch.removeprefix("torch>="))
