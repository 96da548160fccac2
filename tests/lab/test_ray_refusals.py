"""What `--engine ray` refuses before any run: no cluster is needed."""

import socket
import subprocess
import sys

import pytest
from lab_runs import Silent
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import LabError, SettingError
from posenc.lab.compare import Comparison, plan
from posenc.lab.complete import complete
from posenc.lab.engine.engine import Carrier
from posenc.lab.engine.ray import Ray
from posenc.lab.text import read_text

pytestmark = pytest.mark.unchecked


def asked(comparison: Comparison, carrier: Carrier) -> None:
    corpus = read_text(comparison.text)
    (comparison.out / "runs").mkdir(parents=True)
    configs = plan(comparison, corpus)
    complete(comparison.out, configs, corpus, 1, Silent(), carrier=carrier)


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "ray://127.0.0.1:{port}"])
def test_an_address_where_nobody_answers(small: Comparison, address: str) -> None:
    with socket.socket() as taken:
        # Bound and not listening, it refuses.
        taken.bind(("127.0.0.1", 0))
        engine = Ray(address.format(port=taken.getsockname()[1]))
        with pytest.raises(LabError, match="nobody answers"), engine.opened() as carrier:
            asked(small, carrier)


def test_without_ray_it_says_what_to_install(
    small: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LabError, match=r'pip install -e "\.\[ray\]"'), Ray().opened() as carrier:
        asked(small, carrier)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--engine", "slurm"), "'slurm' is not one of"),
        (("--address", "auto"), "--address auto is for a cluster: give --engine ray"),
        (("--gpus-per-run", "1"), "--gpus-per-run 1.0 is for a cluster"),
        (("--engine", "ray", "--cpus-per-run", "0"), "cpus_per_run must be a whole number"),
        (("--engine", "ray", "--gpus-per-run", "-1"), "--gpus-per-run -1"),
    ],
)
def test_options_that_do_not_fit(options: tuple[str, ...], said: str) -> None:
    ended = CliRunner().invoke(app, ["compare", *options])
    assert ended.exit_code == 2
    assert said in ended.stderr


def test_gpus_and_another_device() -> None:
    with pytest.raises(SettingError, match="--device cpu with --gpus-per-run 1"):
        Ray(gpus_per_run=1).device("cpu")
    assert Ray(gpus_per_run=1).device("auto") == Ray(gpus_per_run=1).usual_device() == "cuda"


def test_ray_is_not_imported_for_local_runs() -> None:
    program = """
import sys
import posenc.commands.compare
from posenc.lab.engine.ray import Ray
with Ray().opened():
    assert "ray" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
