"""Evaluation against slow loops that score one byte at a time."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import posenc as pe
from posenc.lab import evaluate as module
from posenc.lab.config import RunConfig
from posenc.lab.evaluate import evaluate, losses, spans, windows
from posenc.lab.model import build

CONFIG = RunConfig(
    "learned",
    train_length=8,
    test_lengths=(4, 8, 12, 24),
    dim=8,
    depth=1,
    heads=2,
    spans=10,
)
TEXT = torch.randint(0, 256, (700,), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def rows_of(model: nn.Module, config: RunConfig = CONFIG, text: Tensor = TEXT) -> list[Any]:
    with torch.inference_mode():
        return list(evaluate(model.eval(), config, text))


def loss_of(model: nn.Module, before: list[int], byte: int) -> float:
    """Minus the log of the probability of `byte` after the bytes `before`."""
    logits = model(torch.tensor([before]))[0, -1].double()
    return (logits.logsumexp(0) - logits[byte]).item()


def slow(model: nn.Module, config: RunConfig, text: list[int], length: int) -> dict[str, list]:
    """The losses of both protocols at one length, span by span, from their definitions."""
    longest = max(config.test_lengths)
    count = min(config.spans, (len(text) - 1) // longest)
    found: dict[str, list] = {"windows": [], "targets": []}
    for span in range(count):
        start = span * (len(text) - 1 - longest) // (count - 1)
        of_windows = []
        for first in range(start, start + longest - length + 1, length):
            for at in range(first, first + length):
                of_windows.append(loss_of(model, text[first : at + 1], text[at + 1]))
        end = start + longest
        of_targets = [
            loss_of(model, text[end - length : at + 1], text[at + 1])
            for at in range(end - min(2, length), end)
        ]
        found["windows"].append(of_windows)
        found["targets"].append(of_targets)
    return found


@pytest.mark.parametrize("name", ["learned", "rotary", "alibi"])
def test_both_protocols_equal_the_slow_loop(name: str) -> None:
    config = replace(CONFIG, encoding=name)
    model = build(config).eval()
    nn.init.normal_(model.embedding.token.weight, std=1.0)
    rows = rows_of(model, config)
    with torch.inference_mode():
        for length in config.test_lengths:
            expected = slow(model, config, TEXT.tolist(), length)
            for protocol, by_span in expected.items():
                (row,) = (
                    row
                    for row in rows
                    if (row.get("protocol"), row["length"]) == (protocol, length)
                )
                flat = [loss for of_span in by_span for loss in of_span]
                assert row["tokens"] == len(flat)
                assert row["loss"] == pytest.approx(sum(flat) / len(flat), abs=1e-5)
                means = [sum(of_span) / len(of_span) for of_span in by_span]
                assert row["spans"] == pytest.approx(means, abs=1e-5)


def test_loss_by_position_equals_the_slow_loop() -> None:
    model = build(CONFIG).eval()
    row = rows_of(model)[-1]
    assert row["kind"] == "by_position"
    assert row["length"] == 24
    assert row["edges"] == list(range(25))
    with torch.inference_mode():
        by_span = slow(model, CONFIG, TEXT.tolist(), 24)["windows"]
    expected = [sum(column) / len(column) for column in zip(*by_span, strict=True)]
    assert row["loss"] == pytest.approx(expected, abs=1e-5)


def test_a_last_bucket_may_be_narrower() -> None:
    config = replace(CONFIG, train_length=40, test_lengths=(12,))
    row = rows_of(build(config), config)[-1]
    assert row["edges"] == [0, 5, 10, 12]
    assert len(row["loss"]) == 3


def test_every_length_scores_the_same_targets() -> None:
    rows = [row for row in rows_of(build(CONFIG)) if row.get("protocol") == "targets"]
    assert {row["tokens"] for row in rows} == {10 * CONFIG.target_tokens}
    assert CONFIG.target_tokens == 2
    assert replace(CONFIG, train_length=64).target_tokens == 4


class TestSpans:
    def test_are_spread_and_overlap_at_their_ends_alone(self) -> None:
        text = torch.arange(256, dtype=torch.uint8)
        chosen = spans(text, 10, 20)
        assert chosen.shape == (20, 11)
        assert chosen[0, 0] == 0
        assert chosen[-1, -1] == 255
        assert (chosen[1:, 0] >= chosen[:-1, -1]).all()

    def test_are_fewer_when_the_text_is_short(self) -> None:
        assert spans(torch.arange(31, dtype=torch.uint8), 10, 20).tolist() == [
            list(range(start, start + 11)) for start in (0, 10, 20)
        ]

    def test_are_cut_into_windows_without_a_rest(self) -> None:
        x, y = windows(torch.arange(11)[None], 4)
        assert x.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert y.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


@pytest.mark.parametrize("name", ["TOKENS_AT_ONCE", "SCORES_AT_ONCE"])
def test_the_size_of_batches_changes_nothing_but_memory(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(CONFIG).eval()
    x, y = windows(spans(TEXT, 24, 10), 8)
    with torch.inference_mode():
        whole = losses(model, x, y, CONFIG.heads)
        monkeypatch.setattr(module, name, 1)
        sizes: list[int] = []
        single = losses(model, x, y, CONFIG.heads, sizes.append)
    assert sizes == [8] * 30
    torch.testing.assert_close(single, whole)


class TestLengthsThatCannotBeServed:
    class Short(pe.Transformer):
        """Fails past 8 tokens in the way that it was told to."""

        error: Exception | None = None

        def forward(self, tokens: Tensor) -> Tensor:
            logits = super().forward(tokens)
            if tokens.shape[1] <= 8:
                return logits
            if self.error:
                raise self.error
            return logits * math.nan

    def model(self, error: Exception | None) -> nn.Module:
        model = self.Short(256, 8, 1, 2, pe.NoPE())
        model.error = error
        return model

    @pytest.mark.parametrize(
        "error", [pe.PositionsError("at most 8"), RuntimeError("no memory"), IndexError("row 9")]
    )
    def test_are_missing_with_the_reason(self, error: Exception) -> None:
        rows = rows_of(self.model(error))
        kinds = [(row["kind"], row["length"]) for row in rows]
        assert kinds == [("loss", 4)] * 2 + [("loss", 8)] * 2 + [
            ("missing", 12),
            ("missing", 12),
            ("missing", 24),
            ("missing", 24),
        ]
        assert rows[-1]["reason"] == f"{type(error).__name__}: {error}"
        assert {row["protocol"] for row in rows[-2:]} == {"windows", "targets"}

    def test_a_loss_that_is_not_a_number_is_none(self) -> None:
        rows = rows_of(self.model(None))
        assert [row["loss"] is None for row in rows] == [False] * 4 + [True] * 4

    def test_an_error_at_the_train_length_is_an_error(self) -> None:
        with pytest.raises(pe.PositionsError, match="at most 8"):
            rows_of(
                self.model(pe.PositionsError("at most 8")),
                replace(CONFIG, train_length=12),
            )


def test_progress_ends_at_one() -> None:
    told: list[float] = []
    with torch.inference_mode():
        list(evaluate(build(CONFIG).eval(), CONFIG, TEXT, told.append))
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1.0)


def test_models_of_other_train_lengths_can_be_scored_on_the_same_bytes() -> None:
    model = build(CONFIG)
    rows = {}
    for name, config in {
        "short": CONFIG,
        "long": replace(CONFIG, train_length=24),
        "the same": replace(CONFIG, train_length=24, scored=CONFIG.target_tokens),
    }.items():
        found = [row for row in rows_of(model, config) if row.get("protocol") == "targets"]
        rows[name] = [(row["length"], row["tokens"], row["loss"]) for row in found]
    assert rows["the same"] == rows["short"] != rows["long"]
