"""The connection to a cluster of Ray, and whether it can carry runs out."""

import logging
import os
import socket
from pathlib import Path

import ray

from posenc.errors import LabError, SettingError

CONNECT_SECONDS = 5.0


def connect(address: str) -> None:
    """Connect this process, unless it is. Raises LabError where nobody answers."""
    if ray.is_initialized():
        return
    asked = _resolved(address)
    _knock(asked, address)
    try:
        ray.init(address=asked, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        said = str(error).strip().partition("\n")[0]
        raise LabError(
            f"--address {address}: no connection to a cluster of Ray ({said}); `ray start --head` "
            "begins one, and --address names another: auto, HOST:PORT or ray://HOST:PORT"
        ) from None


def room(cpus: int, gpus: float) -> int:
    """How many runs all nodes together have room for, were nothing else on them."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    asked = [(name, count) for name, count in (("CPU", cpus), ("GPU", gpus)) if count]
    return sum(min(int(node.get(name, 0) // count) for name, count in asked) for node in nodes)


def require(address: str, cpus: int, gpus: float) -> None:
    """Raise SettingError where no node of the cluster has room for one run."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for option, name, asked in (("cpus", "CPU", cpus), ("gpus", "GPU", gpus)):
        most = max((node.get(name, 0) for node in nodes), default=0)
        if asked > most:
            raise SettingError(
                f"--{option}-per-run {asked:g}: of the {len(nodes)} nodes at --address {address} "
                f"none has more than {most:g} {name}s, and the run would wait for ever"
            )
    if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        raise SettingError(
            f"--cpus-per-run {cpus} --gpus-per-run {gpus:g}: no node at --address {address} has "
            "both, and the run would wait for ever"
        )


def _resolved(address: str) -> str:
    """Where auto leads to, as Ray finds it: by the environment, or the last `ray start` here."""
    if address != "auto":
        return address
    if os.environ.get("RAY_ADDRESS"):
        return os.environ["RAY_ADDRESS"]
    last = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    try:
        return last.read_text("utf-8").strip() or address
    except OSError:
        return address


def _knock(address: str, asked: str) -> None:
    """Ask whether anybody listens: Ray itself waits for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise LabError(
            f"--address {asked}: nobody answers at {address} ({error}); `ray status` tells whether "
            "the cluster is up, and `ray start --head` begins one"
        ) from None
