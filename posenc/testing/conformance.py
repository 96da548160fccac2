"""Every encoding against its paper and against other people's code: the conformance report."""

import dataclasses
import importlib
import pkgutil
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from posenc.catalogue import find
from posenc.encodings import members
from posenc.errors import SettingError
from posenc.testing.agreement import Agreement, Peer, Status, errors_of
from posenc.testing.paper import paper_of
from posenc.testing.suite import Result


def all_peers(names: Iterable[str] | None = None, package: str | None = None) -> list[Peer]:
    """The paper's formula, then every peer that a package declares, of the encodings named.

    names    of the catalogue, or "module:Class"; None for all of the catalogue
    package  as it is imported, with a module of `Peer`s for each encoding or family; None for the
             paper alone

    Raises SettingError for a package that cannot be imported.
    """
    chosen = members().values() if names is None else map(find, names)
    declared = [] if package is None else peers_in(package)
    peers: list[Peer] = []
    for kind in chosen:
        peers.append(paper_of(kind))
        peers += [peer for peer in declared if find(peer.encoding) is kind]
    return peers


def peers_in(package: str) -> list[Peer]:
    """Every `Peer` that is a global of a module of this package."""
    try:
        home = importlib.import_module(package)
        names = [name for _, name, _ in pkgutil.iter_modules(home.__path__, f"{package}.")]
        modules = [importlib.import_module(name) for name in names]
    except (ImportError, AttributeError) as error:
        raise SettingError(
            f"peers {package!r} cannot be imported ({error}): give a package of modules "
            "that declare peers, such as tests.peers in a checkout of posenc"
        ) from error
    values = [value for module in modules for value in vars(module).values()]
    return [value for value in values if isinstance(value, Peer)]


def run_peer(peer: Peer) -> Agreement:
    """The largest errors of a peer over its cases; nothing is raised for one that disagrees."""
    oracle, caps = f"{peer.package}: {peer.what}", (peer.forward, peer.gradient, peer.cap)

    def agreement(status: Status, detail: str, *errors: float | None) -> Agreement:
        forward, gradient = errors or (None, None)
        return Agreement(peer.encoding, oracle, count, forward, gradient, *caps, status, detail)

    count, worst, where = 0, [0.0, 0.0], ["", ""]
    if peer.package != "paper":
        try:
            oracle = f"{peer.package} {version(peer.package)}: {peer.what}"
        except PackageNotFoundError:
            return agreement("not installed", f"pip install {peer.package}")
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            # What other people's code is warned of is not ours to mend.
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            for case in peer.cases():
                count += 1
                for i, error in enumerate(errors_of(case)):
                    if error is not None and error >= worst[i]:
                        worst[i], where[i] = error, case.name
    except Exception as error:
        return agreement("failed", f"raised {type(error).__name__}: {error}")
    good = count > 0 and worst[0] <= peer.forward and worst[1] <= peer.gradient
    detail = f"forward: {where[0]}; gradient: {where[1] or 'none'}"
    gradient = worst[1] if where[1] else None
    return agreement("agrees" if good else "disagrees", detail, worst[0], gradient)


def report_of(
    results: Sequence[Result], agreements: Sequence[Agreement], peers: Iterable[Peer] = ()
) -> dict[str, Any]:
    """The conformance report: checks counted for each example, every agreement, and versions."""
    counts: dict[str, Counter[str]] = {}
    for result in results:
        counts.setdefault(result.encoding, Counter())[result.status] += 1
    return {
        "versions": versions(peers),
        "checks": {example: dict(count) for example, count in counts.items()},
        "peers": [_finite(dataclasses.asdict(agreement)) for agreement in agreements],
    }


def versions(peers: Iterable[Peer] = ()) -> dict[str, str]:
    """Versions of posenc, torch and the packages that peers come from."""
    packages = {peer.package for peer in peers} - {"paper"} | {"torch", "posenc"}
    numbers: dict[str, str] = {}
    for package in sorted(packages):
        try:
            numbers[package] = version(package)
        except PackageNotFoundError:
            numbers[package] = "not installed"
    return numbers


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    # JSON has no infinity; such a row has the status "disagrees".
    return {name: None if value == float("inf") else value for name, value in row.items()}
