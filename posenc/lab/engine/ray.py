"""A cluster of Ray, as a person chose it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from posenc.errors import SettingError, whole
from posenc.lab.engine.engine import Carrier
from posenc.lab.engine.ray_process import RayProcess


@dataclass(frozen=True)
class Ray:
    """A cluster.

    address       auto, HOST:PORT, or ray://HOST:PORT of Ray Client
    cpus_per_run  cores that a run asks for, which is also how many threads it computes with
    gpus_per_run  with any, runs compute on cuda; a share of one lets several runs have it
    retries       how often in a row a run may lose its worker without a checkpoint in between
    """

    address: str = "auto"
    cpus_per_run: int = 1
    gpus_per_run: float = 0.0
    retries: int = 3

    def __post_init__(self) -> None:
        whole("Ray", cpus_per_run=self.cpus_per_run)
        whole("Ray", 0, retries=self.retries)
        if not 0 <= self.gpus_per_run < float("inf"):
            raise SettingError(f"--gpus-per-run {self.gpus_per_run}: it is 0 or more")

    def at_once(self) -> int:
        # The cluster knows how many have room.
        return 2**31

    def device(self, asked: str) -> str:
        """Where runs compute; raises SettingError where that contradicts the GPUs asked for."""
        found = ("cuda" if self.gpus_per_run else "cpu") if asked == "auto" else asked
        if found.startswith("cuda") != bool(self.gpus_per_run):
            raise SettingError(
                f"--device {asked} with --gpus-per-run {self.gpus_per_run:g}: Ray gives a run "
                "GPUs for cuda, and none for another device"
            )
        return found

    def usual_device(self) -> str:
        return self.device("auto")

    @contextmanager
    def opened(self) -> Iterator[Carrier]:
        carrier = RayProcess(self)
        try:
            yield carrier
        finally:
            carrier.close()
