"""What docs/en/howto/inspect.md says of two trained models, with their weights."""

from typing import Any

import pytest

from posenc.inspection.run import inspect_model
from posenc.models.loading import load_model
from tests.support.trained import minilm, smollm2

pytestmark = pytest.mark.trained


@pytest.fixture(scope="module")
def encoder() -> dict[str, Any]:
    return inspect_model(load_model(minilm()))


@pytest.fixture(scope="module")
def decoder() -> dict[str, Any]:
    # Of the layers that the page names, and of fewer tokens, to be quick.
    return inspect_model(load_model(smollm2()), tokens=96, layers={0, 11, 16, 24})


class TestMiniLM:
    def test_rows_are_all_trained_and_shorter_before_128(self, encoder: dict[str, Any]) -> None:
        table = encoder["table"]
        assert table["states"] == {"trained": [[0, 511]]}
        assert max(table["norm"][3:120]) < min(table["norm"][128:500])

    def test_a_head_of_the_token_before(self, encoder: dict[str, Any]) -> None:
        previous = encoder["layers"][0]["attention"]["previous"]
        assert previous[2] == max(previous) > 0.7

    def test_position_is_in_the_middle_layers_and_not_in_the_last(
        self, encoder: dict[str, Any]
    ) -> None:
        content = [sum(layer["stays"]["content"]) / 12 for layer in encoder["layers"]]
        assert content[1] < 0.4
        assert content[5] > 0.95

    def test_shifts_change_much(self, encoder: dict[str, Any]) -> None:
        relative = [one["relative"] for one in encoder["shifts"]["changes"]]
        assert [one["shift"] for one in encoder["shifts"]["changes"]] == [1, 16, 256]
        assert relative == sorted(relative)
        assert relative[0] > 0.05
        assert relative[2] > 0.3


class TestSmolLM2:
    def test_shifts_change_nothing_but_rounding(self, decoder: dict[str, Any]) -> None:
        changes = decoder["shifts"]["changes"]
        assert [one["shift"] for one in changes] == [1, 16, 256, 1024, 4096]
        assert max(one["relative"] for one in changes) < 1e-4

    def test_scores_were_rebuilt_in_every_layer(self, decoder: dict[str, Any]) -> None:
        assert [layer["layer"] for layer in decoder["layers"]] == [0, 11, 16, 24]
        assert all(layer["notes"] == [] for layer in decoder["layers"])

    def test_first_tokens_are_sinks_in_late_layers(self, decoder: dict[str, Any]) -> None:
        first = {x["layer"]: sum(x["attention"]["first"]) / 9 for x in decoder["layers"]}
        assert first[0] < 0.2 < 0.5 < first[24]

    def test_a_head_that_distance_explains(self, decoder: dict[str, Any]) -> None:
        layer = decoder["layers"][2]
        assert layer["split"]["distance"][0] > 0.7
        assert layer["attention"]["previous"][0] > 0.5

    def test_slow_pairs_hold_most(self, decoder: dict[str, Any]) -> None:
        pairs = decoder["layers"][3]["pairs"]
        of_slow = [
            x for x, w in zip(pairs["product"], pairs["wavelength"], strict=True) if w > 8192
        ]
        assert len(of_slow) == 12
        assert sum(of_slow) > 0.5 * sum(pairs["product"])
