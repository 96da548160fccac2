import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags
from posenc.errors import SettingError, given, is_finite, one_of, positive, whole
from posenc.positions import Positions, one_axis
from posenc.terms import Scale, Term


def _log_n(at: Tensor, *, original_length: int) -> Tensor:
    return ((at + 1).log() / math.log(original_length)).clamp(min=1.0)


def _yarn(at: Tensor, *, factor: float, strength: float = 0.1) -> float:
    return (strength * math.log(factor) + 1) ** 2


def _llama4(at: Tensor, *, original_length: int = 8_192, strength: float = 0.1) -> Tensor:
    return 1 + strength * ((at + 1) / original_length).floor().log1p()


def _inkling(at: Tensor, *, original_length: int, strength: float = 0.1) -> Tensor:
    return 1 + strength * ((at + 1) / original_length).clamp(min=1.0).log()


def _ministral(at: Tensor, *, original_length: int = 16_384, strength: float = 0.1) -> Tensor:
    return 1 + strength * (at / original_length).floor().log1p()


# The growth of scores at float64 positions. What a kind can be given is what its function takes.
KINDS: dict[str, Callable[..., Tensor | float]] = {
    "log_n": _log_n,
    "yarn": _yarn,
    "llama4": _llama4,
    "ministral": _ministral,
    "inkling": _inkling,
}


class Temperature(Encoding):
    """Scores grow as the context does, so that attention stays sharp over more tokens.

        score[i, j] = growth(p) * scale * q[i] . k[j],   p the position of query i

        kind         growth(p)                                                defaults
        "log_n"      max(1, ln(p + 1) / ln(original_length))
        "yarn"       (strength * ln(factor) + 1)**2                           strength 0.1
        "llama4"     1 + strength * ln(1 + floor((p + 1) / original_length))  8192, 0.1
        "ministral"  1 + strength * ln(1 + floor(p / original_length))        16384, 0.1
        "inkling"    1 + strength * ln(max(1, (p + 1) / original_length))     strength 0.1

    original_length is in tokens, factor is how often it goes into the new length. Biases outside
    the scale do not grow. The scaling YaRN does as much on cos and sin: give one of the two. Raises
    SettingError for a setting that the kind lacks or does not read, strength <= 0, factor < 1 and
    original_length < 2.

    Source: "log_n" Su 2021, https://kexue.fm/archives/8823, clipped as in bojone/rerope; "yarn"
    Peng et al. 2023, arXiv:2309.00071, section 3.4; the others after Nakanishi 2025,
    arXiv:2501.19399, as in the code of Llama 4, of Ministral 3 and of Inkling
    in transformers, whose log_scaling_n_floor is original_length.
    """

    name = "temperature"
    family = "scale"
    paper = "https://kexue.fm/archives/8823"
    tags = Tags(
        norm_preserving=True, comparable="it only scales scores: give it beside an encoding"
    )

    def __init__(
        self,
        kind: Literal["log_n", "yarn", "llama4", "ministral", "inkling"],
        original_length: int | None = None,
        factor: float | None = None,
        strength: float | None = None,
    ) -> None:
        super().__init__()
        one_of("Temperature", tuple(KINDS), kind=kind)
        self.kind = kind
        self.original_length, self.factor, self.strength = original_length, factor, strength
        try:
            bound = inspect.signature(KINDS[kind]).bind(None, **self._own())
        except TypeError as error:
            raise SettingError(f"Temperature({kind!r}, ...): {error}") from None
        bound.apply_defaults()
        for name, value in bound.kwargs.items():
            setattr(self, name, value)
        whole("Temperature", 2, **given(original_length=self.original_length))
        if self.factor is not None and (not is_finite(self.factor) or self.factor < 1):
            raise SettingError(
                f"Temperature(factor={self.factor!r}): factor must be at least 1, a finite number"
            )
        positive("Temperature", **given(strength=self.strength))
        self.tags = replace(self.tags, translation_invariant=kind == "yarn")

    @classmethod
    def for_model(cls, *, train_length: int, **_: object) -> Encoding:
        return cls("log_n", original_length=max(2, train_length))

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield from (cls("log_n", original_length=4), cls("yarn", factor=4.0))
        yield from (cls("llama4", original_length=4), cls("ministral", 4, strength=0.3))
        yield cls("inkling", 4)

    def _own(self) -> dict[str, float]:
        names = ("original_length", "factor", "strength")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        growth = KINDS[self.kind](positions.queries.position.double(), **self._own())
        if isinstance(growth, Tensor):
            growth = one_axis(growth, "Temperature").view(-1, 1, positions.q_len).to(dtype)
        return (Scale(growth),)

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        scores = at.scale * torch.einsum("bhid,bhjd->bhij", q, k)
        length, strength = self.original_length or 0, self.strength or 0.0

        def growth(p: float) -> float:
            if self.kind == "log_n":
                return max(1.0, math.log(p + 1) / math.log(length))
            if self.kind == "yarn":
                return (strength * math.log(self.factor or 0) + 1) ** 2
            if self.kind == "inkling":
                return 1 + strength * math.log(max(1.0, (p + 1) / length))
            first = 1 if self.kind == "llama4" else 0
            return 1 + strength * math.log(1 + math.floor((p + first) / length))

        return scores * at.q.clone().apply_(growth)[:, None, :, None]
