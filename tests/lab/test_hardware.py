"""What a record says of the machine that it was made on."""

from pathlib import Path

import pytest

from posenc.lab import hardware

EPYC = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC
"""
ARM = """processor\t: 0
BogoMIPS\t: 243.75
CPU architecture: 8
"""


@pytest.mark.parametrize(
    ("information", "name"),
    [
        (f"{EPYC}\n{EPYC.replace('26', '25')}", "AMD EPYC (family 26, model 2)"),
        (ARM, "aarch64"),
        (None, "aarch64"),
    ],
)
def test_processors_of_one_name_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, information: str | None, name: str
) -> None:
    path = tmp_path / "cpuinfo"
    if information is not None:
        path.write_text(information)
    monkeypatch.setattr(hardware.platform, "processor", lambda: "aarch64")
    assert hardware._cpu_name(path) == name
