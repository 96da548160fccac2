"""What all methods read: stretches of the text, and passkeys hidden in it; token ids (t,)."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import LabError

# Read at the beginning of a piece of text, so that no file of gigabytes is cut into tokens.
LETTERS_PER_TOKEN = 16
NEEDLE = "\nThe pass key is {key}. Remember it. {key} is the pass key.\n"
QUESTION = "\nWhat is the pass key? The pass key is"
DIGITS = 5


@dataclass(frozen=True)
class Hidden:
    """A prompt with its answer at its end: ids[first:] is what the model is to say."""

    ids: Int[Tensor, "t"]
    first: int


@dataclass(frozen=True)
class Material:
    """Spans of text in tokens, text to hide needles in, and the tokenizer's opening token.

    rests are tokens that stand behind the haystack and behind each span, which nothing measures.
    """

    tokenizer: Any
    opening: tuple[int, ...]
    spans: tuple[Int[Tensor, "t"], ...]
    haystack: Int[Tensor, "t"]
    rests: tuple[Int[Tensor, "t"], ...] = ()

    @classmethod
    def of(cls, tokenizer: Any, text: str, spans: int, longest: int, beyond: int = 0) -> "Material":
        """A haystack of `longest` tokens from the text's beginning, then spans evenly spread.

        `beyond` is how many tokens more are wanted behind each; a rest is shorter where its part of
        the text ends. Spans are the same for any.

        Raises LabError where the text is too short for that.
        """
        opening = tuple(_opening(tokenizer))
        pieces, rests = [], []
        for i in range(spans + 1):
            begin = len(text) * i // (spans + 1)
            end = len(text) * (i + 1) // (spans + 1)
            head = min(end, begin + LETTERS_PER_TOKEN * longest)
            piece = _tokens(tokenizer, text[begin:head])
            if len(piece) < longest:
                raise LabError(
                    f"the text is too short: {spans} spans and a haystack of {longest} tokens each "
                    f"are needed, and one of {spans + 1} equal parts of it has {len(piece)}; give "
                    "more with --text, fewer --spans, or a shorter --to"
                )
            pieces.append(torch.tensor(piece[:longest]))
            if len(piece) < longest + beyond:
                piece += _tokens(
                    tokenizer, text[head : min(end, head + LETTERS_PER_TOKEN * beyond)]
                )
            rests.append(torch.tensor(piece[longest : longest + beyond], dtype=torch.long))
        return cls(tokenizer, opening, tuple(pieces[1:]), pieces[0], tuple(rests))

    def digest(self, span: int | None) -> str:
        """The sha256 of a span, or, for None, of what passkeys are hidden in and asked with."""
        ids = self.haystack if span is None else self.spans[span]
        said = repr((self.opening, (NEEDLE, QUESTION) if span is None else ()))
        return hashlib.sha256(said.encode() + ids.numpy().tobytes()).hexdigest()

    def span(self, index: int, length: int) -> Int[Tensor, "t"]:
        """The last `length` tokens of a span, behind the opening token: all lengths end alike."""
        return self.opened(self.spans[index][-(length - len(self.opening)) :])

    def opened(self, ids: Int[Tensor, "t"]) -> Int[Tensor, "t"]:
        return torch.cat([torch.tensor(self.opening, dtype=ids.dtype), ids])

    def passkey(self, length: int, depth: float | None, seed: str) -> Hidden:
        """`length` tokens: text with a key at this depth (0 first, 1 last), the question, the key.

        Without a depth no key is hidden: what is then found was guessed. Raises LabError where
        needle and question alone are longer.
        """
        drawn = random.Random(seed)
        key = "".join(drawn.choices("0123456789", k=DIGITS))
        start = drawn.randrange(len(self.haystack))
        whole = _tokens(self.tokenizer, f"{QUESTION} {key}")
        # The blank is given, unless the tokenizer joins it to the first digit: a model that says
        # the key in quotes or on a line of its own has found it too.
        same = _alike(_tokens(self.tokenizer, f"{QUESTION} "), whole)
        needle = [] if depth is None else _tokens(self.tokenizer, NEEDLE.format(key=key))
        room = length - len(self.opening) - len(needle) - len(whole)
        if room < 0:
            raise LabError(
                f"a passkey with its question takes {length - room} tokens, and {length} are to be "
                "read: give a longer --to, or leave passkey out of --measures"
            )
        cut = round(room * (depth or 0.0))
        hay = self.haystack.roll(-start)[:room].tolist()
        ids = self.opened(torch.tensor([*hay[:cut], *needle, *hay[cut:], *whole]))
        return Hidden(ids, len(ids) - (len(whole) - same))


def _tokens(tokenizer: Any, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]


def _opening(tokenizer: Any) -> list[int]:
    """The token that the tokenizer puts before every text, as the model was trained with it."""
    first = tokenizer("a")["input_ids"][:1]
    return first if first == [tokenizer.bos_token_id] else []


def _alike(one: Sequence[int], two: Sequence[int]) -> int:
    """How many first tokens two sequences share."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(two)))
