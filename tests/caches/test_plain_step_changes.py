"""What changes between two steps is seen by the short way as by the long one."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch

import posenc as pe
from posenc.encoding import Encoding
from tests.support.steps import DIM, HEADS, Steps, same


@pytest.mark.parametrize("make", [pe.Cache, lambda: pe.StaticCache(40)], ids=["growing", "static"])
class TestWhatChangesBetweenSteps:
    def compared(
        self,
        make: Any,
        change: Callable[[Steps], None],
        encoding: Encoding | None,
        the_long_way: Any,
    ) -> None:
        """The same after a change between two steps, by the short way and by the long one."""
        outs = []
        both = []
        for _ in range(2):
            steps = Steps(encoding, make())
            steps.run(3)
            change(steps)
            outs.append([steps.step() for _ in range(3)])
            both.append(steps)
            the_long_way()
        assert all(map(torch.equal, *outs))
        same(*both)

    @pytest.mark.parametrize("length", [0, 2, 6])
    def test_tokens_taken_back(self, make: Any, length: int, the_long_way: Any) -> None:
        self.compared(
            make, lambda steps: steps.cache.truncate(length), pe.Rotary(DIM), the_long_way
        )

    def test_rows_exchanged(self, make: Any, the_long_way: Any) -> None:
        rows = torch.tensor([1, 1])
        self.compared(make, lambda steps: steps.cache.reorder(rows), pe.Rotary(DIM), the_long_way)

    def test_several_tokens_at_once(self, make: Any, the_long_way: Any) -> None:
        self.compared(make, lambda steps: steps.prompt(3), pe.Rotary(DIM), the_long_way)

    def test_another_base(self, make: Any, the_long_way: Any) -> None:
        def change(steps: Steps) -> None:
            steps.encoding = pe.Rotary(DIM, base=100.0)

        self.compared(make, change, pe.Rotary(DIM), the_long_way)

    def test_keys_exchanged(self, make: Any, the_long_way: Any) -> None:
        def change(steps: Steps) -> None:
            steps.cache.k = steps.cache.k * 2

        self.compared(make, change, pe.Rotary(DIM), the_long_way)

    @pytest.mark.parametrize("copied", [deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    def test_a_copy_goes_on(self, make: Any, copied: Any, the_long_way: Any) -> None:
        def change(steps: Steps) -> None:
            steps.cache = copied(steps.cache)

        self.compared(make, change, pe.Rotary(DIM), the_long_way)

    def test_forgotten_and_set_anew(self, make: Any, the_long_way: Any) -> None:
        def change(steps: Steps) -> None:
            steps.cache.reset()
            steps.encoding.base = 100.0
            steps.prompt()

        self.compared(make, change, pe.Rotary(DIM), the_long_way)

    @pytest.mark.parametrize("in_place", [True, False])
    def test_what_was_learned(self, make: Any, in_place: bool, the_long_way: Any) -> None:
        encoding = pe.T5Bias(HEADS)
        (name, before), *_ = encoding.named_parameters()
        weights = before.detach().clone()

        def change(steps: Steps) -> None:
            if in_place:
                before.mul_(2.0)
            else:
                setattr(encoding, name, torch.nn.Parameter(2.0 * weights))

        outs = []
        with torch.no_grad():
            for _ in range(2):
                encoding.get_parameter(name).data = weights.clone()
                steps = Steps(encoding, make())
                steps.run(3)
                change(steps)
                outs.append(steps.step())
                the_long_way()
        torch.testing.assert_close(*outs)

    def listed(
        self, make: Any, change: Callable[[Steps], None], parts: list[Any], the_long_way: Any
    ) -> None:
        outs = []
        for _ in range(2):
            steps = Steps(list(parts), make())
            steps.run(7)
            with torch.no_grad():
                change(steps)
                outs.append([steps.step() for _ in range(3)])
            the_long_way()
        torch.testing.assert_close(*outs)

    PARTS = (pe.Rotary(DIM), pe.SlidingWindow(4), pe.Sinks(2))

    @pytest.mark.parametrize("at", [1, 2])
    def test_a_part_left_away(self, make: Any, at: int, the_long_way: Any) -> None:
        def change(steps: Steps) -> None:
            del steps.encoding[at]

        self.listed(make, change, [*self.PARTS], the_long_way)

    def test_a_part_exchanged(self, make: Any, the_long_way: Any) -> None:
        def change(steps: Steps) -> None:
            steps.encoding[1] = pe.SlidingWindow(9)

        self.listed(make, change, [*self.PARTS], the_long_way)

    def test_a_part_added(self, make: Any, the_long_way: Any) -> None:
        self.listed(make, lambda x: x.encoding.append(pe.ALiBi(HEADS)), [*self.PARTS], the_long_way)

    def test_tokens_taken_back_from_a_window(self, make: Any, the_long_way: Any) -> None:
        self.listed(make, lambda steps: steps.cache.truncate(5), [*self.PARTS], the_long_way)

    def test_what_is_hidden_exchanged(self, make: Any, the_long_way: Any) -> None:
        def change(steps: Steps) -> None:
            steps.cache.k = steps.cache.k.clone()
            steps.cache.k[:, :, 2:8] = torch.nan

        self.listed(make, change, [*self.PARTS], the_long_way)

    def test_what_a_part_learned(self, make: Any, the_long_way: Any) -> None:
        outs = []
        for _ in range(2):
            torch.manual_seed(0)
            bias = pe.KERPLE(HEADS)
            steps = Steps([bias, pe.SlidingWindow(5)], make())
            with torch.no_grad():
                steps.run(7)
                for x in bias.parameters():
                    x.mul_(2.0)
                outs.append(steps.step())
            the_long_way()
        torch.testing.assert_close(*outs)

    def test_the_scale(self, make: Any, the_long_way: Any) -> None:
        outs = []
        for _ in range(2):
            steps = Steps(pe.ALiBi(HEADS, inside=True), make())
            steps.run(2)
            outs.append(steps.step(scale=0.5))
            the_long_way()
        torch.testing.assert_close(*outs)
