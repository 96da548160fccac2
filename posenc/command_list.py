"""The commands of `posenc`, as --help names them: data, for which no command is loaded."""

from typing import NamedTuple

ABOUT = "Position encoding for Transformers: look at encodings, check them, compare them."


class Command(NamedTuple):
    """module:function in posenc.commands, and what --help says: the function's first sentence."""

    place: str
    summary: str


# In the order of --help, which loads none of them.
COMMANDS = {
    "advise": Command(
        "advise:advise",
        "Tell what was measured for and against each encoding at a length, for a kind of task.",
    ),
    "bench": Command(
        "bench:bench", "Time posenc against peers and against no position, and write a page."
    ),
    "list": Command("catalogue:list_", "List every encoding, by kind."),
    "check": Command(
        "check:check",
        "Hold encodings to their claims with the public check suite; exit code 1 if one fails.",
    ),
    "claims": Command(
        "claims:app", "Run what was published about encodings, and see whether it holds."
    ),
    "compare": Command(
        "compare:compare",
        "Train a small model with each encoding, test it at longer lengths, and write a report.",
    ),
    "convert": Command(
        "convert:convert",
        "Copy weights in the other rotary layout, or write a configuration for another engine.",
    ),
    "doctor": Command(
        "doctor:doctor",
        "Tell what is wrong with a model's positions and what engines drop; exit code 1 if grave.",
    ),
    "explore": Command(
        "explore:explore",
        "Write the explorer, one HTML file that needs no network, and open it in the browser.",
    ),
    "extend": Command(
        "extend:extend",
        "Measure how far a trained rotary model reads with each method, and write a report.",
    ),
    "inspect": Command(
        "inspect:inspect",
        "Look into a trained model: what positions do to its tables, scores, attention and output.",
    ),
    "lab": Command(
        "lab:app",
        "Run any task of the lab, and look at what was run: numbers, a table, a map.",
    ),
    "show": Command(
        "show:show",
        "Show one encoding: formula, source, settings, tags, examples; or draw it.",
    ),
}
