"""`posenc check`: encodings against the public suite, their papers and other people's code."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from posenc.atomic_files import write_json
from posenc.commands.app import AsJson, errors, print_table
from posenc.commands.language import InLanguage, sayable
from posenc.commands.settings import strangers
from posenc.errors import SettingError
from posenc.words import Texts, Words

if TYPE_CHECKING:
    from posenc.testing import Agreement, Result

TEXTS: Texts = {
    "checking": ("checking {name}", "正在检查 {name}"),
    "comparing": (
        "comparing {name} with {package}: {what}",
        "正在与 {package} 比较 {name}：{what}",
    ),
    "report": ("report: {path}", "报告：{path}"),
    "encoding": ("encoding", "编码"),
    "oracle": ("oracle", "对照"),
    "cases": ("cases", "例数"),
    "forward": ("forward", "前向"),
    "gradient": ("gradient", "梯度"),
    "status": ("status", "结果"),
    "passed": ("passed", "通过"),
    "failed": ("failed", "失败"),
    "expected": ("expected", "预料之中"),
    "skipped": ("skipped", "略过"),
    "agrees": ("agrees", "一致"),
    "disagrees": ("disagrees", "不一致"),
    "not installed": ("not installed", "没有安装"),
    "fails": ("{name} fails {check}:", "{name} 没有通过 {check}："),
    "allowed": (
        "{name} with {oracle}: allowed {forward:.0e} forward, {gradient:.0e} gradient: {cap}",
        "{name} 与 {oracle}：允许前向 {forward:.0e}、梯度 {gradient:.0e}：{cap}",
    ),
    "apart": ("{name} {status} with {oracle}:", "{name} 与 {oracle} {status}："),
}


def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME | package.module:Class]...", help="What to check."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Check every encoding.")] = False,
    paper: Annotated[bool, typer.Option(help="Compare with the paper's formula, too.")] = False,
    peers: Annotated[
        str | None,
        typer.Option(
            metavar="PACKAGE",
            help="With the paper, and with other people's code as declared there.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Where --paper and --peers write their report, as JSON.")
    ] = Path("posenc-conformance.json"),
    tolerance: Annotated[
        float, typer.Option(help="Error that is allowed in every comparison of numbers.")
    ] = 0.0,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK", help='A check; or "behaviour", for all but those of the object.'
        ),
    ] = None,
    as_json: AsJson = False,
    language: InLanguage = "en",
) -> None:
    """Hold encodings to their claims with the public check suite; exit code 1 if one fails.

    With --paper also to the paper's formula, forward and backward. With --peers also to independent
    implementations (the extra "peers"): posenc's own are tests.peers, in a checkout; one
    that is not installed is shown and fails nothing.
    """
    with errors():
        import posenc
        from posenc.catalogue import find
        from posenc.testing import all_peers, report_of, run_checks, run_peer
        from posenc.testing.suite import called, examples_of

        tell = Words(sayable(language, sys.stderr), TEXTS)
        chosen = list(posenc.encodings()) if everything else names or []
        narrowed = "behaviour" if only == ["behaviour"] else only or None
        if not chosen:
            raise SettingError("check: name an encoding, or give --all")
        compared = paper or peers is not None
        if compared and (out.is_dir() or not out.parent.is_dir()):
            raise SettingError(f"check --out {out}: a file in a folder that exists is needed")
        oracles = all_peers(chosen, peers) if compared else []
        examples, results = [], []
        for name in chosen:
            with strangers(f"encoding {name!r} cannot be made"):
                made, lacking = examples_of(name, find(name))
            examples += made
            results += lacking
        for example in examples:
            # A check takes seconds, for it compiles and exports what it is given.
            print(tell("checking", name=called(example)), file=sys.stderr)
            results += run_checks(example, tolerance=tolerance, only=narrowed)
        agreements: list[Agreement] = []
        for peer in oracles:
            about = {"name": peer.encoding, "package": peer.package, "what": peer.what}
            print(tell("comparing", **about), file=sys.stderr)
            agreements.append(run_peer(peer))
    failed = [result for result in results if result.status == "failed"]
    apart = [each for each in agreements if each.status in ("disagrees", "failed")]
    report = report_of(results, agreements, oracles) if compared else None
    if as_json:
        shown = report or [dataclasses.asdict(result) for result in results]
        print(json.dumps(shown, indent=2))
    else:
        say = Words(sayable(language), TEXTS)
        _print_checks(results, failed, say)
        _print_agreements(agreements, apart, say)
    if report is not None:
        with errors():
            write_json(out, report)
        print(tell("report", path=out), file=sys.stderr)
    raise typer.Exit(1 if failed or apart else 0)


def _print_checks(results: list["Result"], failed: list["Result"], say: Words) -> None:
    statuses = ("passed", "failed", "expected", "skipped")
    table = Table(*map(say, ("encoding", *statuses)))
    for encoding in dict.fromkeys(result.encoding for result in results):
        of = [result.status for result in results if result.encoding == encoding]
        table.add_row(encoding, *(str(of.count(status)) for status in statuses))
    print_table(table)
    for result in failed:
        told = say("fails", name=result.encoding, check=result.check)
        print(f"{told}\n    {result.detail}")


def _print_agreements(agreements: list["Agreement"], apart: list["Agreement"], say: Words) -> None:
    if not agreements:
        return
    table = Table(say("encoding"))
    table.add_column(say("oracle"), overflow="fold")
    for name in ("cases", "forward", "gradient", "status"):
        table.add_column(say(name))
    for each in agreements:
        errors = ("-" if e is None else f"{e:.1e}" for e in (each.forward, each.gradient))
        table.add_row(each.encoding, each.oracle, str(each.cases), *errors, say(each.status))
    print_table(table)
    for each in agreements:
        if each.cap and each not in apart:
            allowed = {"forward": each.allowed_forward, "gradient": each.allowed_gradient}
            about = {"name": each.encoding, "oracle": each.oracle, "cap": each.cap}
            print(say("allowed", **about, **allowed))
    for each in apart:
        about = {"name": each.encoding, "oracle": each.oracle, "status": say(each.status)}
        print(f"{say('apart', **about)}\n    {each.detail}")
