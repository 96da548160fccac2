"""Who carries runs out, as people choose it on the command line."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from posenc.errors import SettingError

if TYPE_CHECKING:
    from posenc.lab.engine.engine import Engine

OnEngine = Annotated[
    Literal["local", "ray"], Option("--engine", help="This machine, or a cluster of Ray.")
]
AtAddress = Annotated[
    str | None,
    Option(help="Of the cluster: auto, HOST:PORT, or ray://HOST:PORT.", show_default="auto"),
]
CpusPerRun = Annotated[
    int | None,
    Option(help="Cores, and threads, of each run on the cluster.", show_default="1"),
]
GpusPerRun = Annotated[
    float | None,
    Option(help="GPUs of each run on the cluster; 0.5 lets two share one.", show_default="0"),
]


def chosen_engine(
    engine: str, address: str | None, cpus_per_run: int | None, gpus_per_run: float | None
) -> "Engine":
    """Raises PosencError for options of an engine that was not chosen."""
    given = {"address": address, "cpus_per_run": cpus_per_run, "gpus_per_run": gpus_per_run}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if engine == "ray":
        from posenc.lab.engine.ray import Ray

        return Ray(**chosen)
    for name, value in chosen.items():
        raise SettingError(
            f"--{name.replace('_', '-')} {value} is for a cluster: give --engine ray too"
        )
    from posenc.lab.engine.local import LOCAL

    return LOCAL
