"""`posenc advise`: what was measured for and against each encoding at a length and a task."""

import json
from pathlib import Path
from typing import Annotated

from typer import Option

from posenc.commands.app import errors
from posenc.commands.language import InLanguage, sayable
from posenc.words import Words


def advise(
    train: Annotated[int, Option(help="The length of inputs in training.")],
    target: Annotated[int, Option(help="The length that is to be read.")],
    task: Annotated[
        str,
        Option(
            help="language, copy, recall, order, sort, arithmetic or state; or a task of the lab "
            "by its name, as in needle."
        ),
    ] = "language",
    cache: Annotated[
        bool, Option("--cache", help="Tell which cache decodes with each encoding.")
    ] = False,
    out: Annotated[
        Path, Option(help="Folder of results of your own, as of `posenc claims run`.")
    ] = Path("posenc-claims"),
    as_json: Annotated[bool, Option("--json", help="Print JSON instead of sentences.")] = False,
    language: InLanguage = "en",
) -> None:
    """Tell what was measured for and against each encoding at a length, for a kind of task.

    Rows are of small models, from the results of `posenc claims`. Where the ratio of the lengths
    was not measured, the nearest that was is named; nothing is extrapolated. What no row speaks of
    is listed as not known.
    """
    with errors():
        from posenc.claims import claims
        from posenc.claims.advice import Question, advise
        from posenc.claims.advised import as_json as data
        from posenc.claims.advised import told
        from posenc.claims.evidence import evidence
        from posenc.claims.kept import kept
        from posenc.claims.words import TEXTS

        question = Question(train, target, task, cache)
        found = ((claim, kept(name, out)) for name, claim in claims().items())
        answer = advise(question, evidence((c, one) for c, one in found if one is not None))
    if as_json:
        print(json.dumps(data(answer), indent=2))
        return
    print("\n".join(told(answer, Words(sayable(language), TEXTS))))
