from collections.abc import Iterator
from dataclasses import replace

import torch

from posenc.encoding import Context, Encoding, Keys, Pairs, Queries, Scores, Tags, Visible
from posenc.encodings.rotary import Rotary
from posenc.errors import SettingError, whole
from posenc.mask_rules import Sink, Window
from posenc.positions import Positions, one_axis
from posenc.terms import Mask, Term, Zones


class Sinks(Encoding):
    """The first `count` tokens of a document stay visible in spite of a window.

        visible[m, n] = (in the window) or n < count

    Without a window everything is visible already. Give it beside one:
    attend(q, k, v, [rope, SlidingWindow(256), Sinks(4)]).

    With a rotary it is StreamingLLM: it brings a window of the last `window` tokens, and tokens
    stand where a cache of sinks and window holds them, as if those between had never been:

        score = scale * q . k, both turned by rotary, the query at position
                m                             for keys in the window
                min(m, count + window - 1)    for sinks beyond it

    m counts the tokens of the document. Where positions are explicit ids, the query moves towards
    the sinks by as many positions as tokens are dropped. Then it is causal only, and decoding needs
    Cache("raw"). Raises SettingError for count < 1, window < 1, for one of window and rotary
    without the other, and for a rotary whose frequencies depend on the length.

    Source: Xiao et al. 2024, arXiv:2309.17453, section 3.2.
    """

    name = "sinks"
    family = "mask"
    paper = "arXiv:2309.17453"
    tags = Tags(norm_preserving=True, comparable="it changes nothing without a window")

    def __init__(
        self, count: int = 4, window: int | None = None, rotary: Rotary | None = None
    ) -> None:
        super().__init__()
        whole("Sinks", count=count)
        if (window is None) != (rotary is None):
            raise SettingError(
                f"Sinks(window={window}, rotary={rotary}): positions are renumbered within the "
                "window, so the two come together; for a mask alone give SlidingWindow beside Sinks"
            )
        if rotary is not None and (not isinstance(rotary, Rotary) or rotary.tags.length_dependent):
            raise SettingError(
                f"Sinks(rotary={rotary}): a Rotary is needed, whose scaling does not depend on the "
                "length, for within the cache the length does not grow"
            )
        self.count, self.window, self.rotary = count, window, rotary
        if window is not None and rotary is not None:
            whole("Sinks", window=window)
            self.family = "rotary"
            self.heads, self.head_dim = rotary.heads, rotary.head_dim
            self.tags = replace(rotary.tags, causal_only=True)

    @classmethod
    def examples(cls) -> Iterator[Encoding]:
        yield cls(2)
        yield cls(1, window=3, rotary=Rotary(16))
        yield cls(2, window=2, rotary=Rotary(12, base=500.0, layout="interleaved", rotary_dim=8))

    def lower(
        self,
        positions: Positions,
        context: Context | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Term, ...]:
        if self.window is None or self.rotary is None:
            return (Mask(Sink(self.count)),)
        order = positions.orders()[0]
        dropped = (order - (self.count + self.window - 1)).clamp(min=0)
        queries = positions.queries
        queries = replace(queries, position=one_axis(queries.position, "Sinks") - dropped)
        moved = replace(positions, queries=queries)
        zones = Zones(self.rotary.rotation(positions), self.rotary.rotation(moved), self.window)
        return zones, Mask(Window(self.window)), Mask(Sink(self.count))

    def reference_scores(self, q: Queries, k: Keys, at: Pairs) -> Scores:
        if self.window is None or self.rotary is None:
            return super().reference_scores(q, k, at)
        q_order, k_order = at.orders()
        dropped = (q_order[:, 0, :, 0] - (self.count + self.window - 1)).clamp(min=0)
        near = self.rotary.reference_scores(q, k, at)
        far = self.rotary.reference_scores(q, k, replace(at, q=at.q - dropped))
        return torch.where(q_order - k_order < self.window, near, far)

    def reference_visible(self, at: Pairs) -> Visible:
        if self.window is None:
            return super().reference_visible(at)
        q, k = at.orders()
        return (k > q - self.window) | (k < self.count)
