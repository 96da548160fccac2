"""Experiments whose numbers the notes' pages give: what they do to models is what they say."""

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc as pe
from posenc.models.loading import load_model
from tests.support.trained import minilm
from tools.experiments import meaning, shift, spread
from tools.experiments.intervals import mean_of
from tools.experiments.longer import extended
from tools.experiments.minus import rows
from tools.experiments.reach import reach


@pytest.mark.trained
def test_what_is_done_to_positions_of_a_sentence() -> None:
    model, tokenizer = load_model(minilm())
    tokens = [tokenizer(text, return_tensors="pt")["input_ids"] for text in meaning.sentences()[:4]]
    found = {
        name: [meaning.embedded(model, tokens, change) for change in made]
        for name, made in meaning.changes()
    }
    (given,), (none,) = found["as they are"], found["all zero"]
    with torch.inference_mode():
        at = torch.arange(tokens[0].shape[1])[None] + 8
        later = model(tokens[0], position_ids=at).last_hidden_state.mean(dim=1)
    torch.testing.assert_close(
        found["shifted by 8"][0][0], torch.nn.functional.normalize(later)[0], rtol=0, atol=1e-5
    )
    # The same words in another order: without positions, the same sentence.
    torch.testing.assert_close(meaning.similar(none), torch.ones(2), rtol=0, atol=1e-5)
    assert (meaning.similar(given) < 0.999).all()
    first, *others = found["words shuffled"]
    assert not any(torch.allclose(first, other, atol=1e-3) for other in others)


def test_shuffled_words_stay_between_the_ends() -> None:
    rows = torch.arange(9.0)[:, None].expand(-1, 2)
    for seed in range(3):
        (inner,) = {tuple(meaning.shuffled(seed)(rows, 9)[:, i].tolist()) for i in range(2)}
        assert (inner[0], inner[-1]) == (0, 8)
        assert sorted(inner) == list(range(9))
        assert list(inner) != sorted(inner)


def test_a_reading_of_the_lab_is_the_models_own_and_rotary_does_not_feel_a_shift() -> None:
    torch.manual_seed(0)
    ids, before = torch.randint(19, (3, 6)), torch.randint(19, (3, 4))
    for encoding, felt in ((pe.Rotary(8), False), (pe.Sinusoidal(16), True), (pe.NoPE(), False)):
        model = pe.Transformer(19, 16, depth=2, heads=2, encoding=encoding).double().eval()
        read = shift.lab_reader(model)
        at_3 = read(ids, torch.arange(3, 9))
        with torch.inference_mode():
            later = model(ids, pe.Positions.build(ids=torch.arange(3, 9), causal=True))
        assert torch.equal(at_3.output, later)
        assert [weights.shape for weights in at_3.attention] == [(3, 2, 6, 6)] * 2
        found = dict(shift.effects(read, ids, before, (3, 4)))
        assert list(found) == ["shifted by 3", "shifted by 4", "3 in front", "4 in front"]
        assert (found["shifted by 3"]["change"] > 1e-6).all() == felt
        assert (found["shifted by 3"]["kl"] > 1e-9).all() == felt
        assert (found["3 in front"]["change"] > 1e-6).all()


def test_attention_to_what_is_in_front_is_counted() -> None:
    even = pe.Transformer(19, 16, depth=1, heads=2, encoding=pe.NoPE()).double().eval()
    with torch.no_grad():
        even.blocks[0].attention.query.weight.zero_()
    ids, before = torch.randint(19, (2, 5)), torch.randint(19, (2, 3))
    found = dict(shift.effects(shift.lab_reader(even), ids, before, (3,)))["3 in front"]
    share = sum(3 / (3 + i) for i in range(1, 6)) / 5
    torch.testing.assert_close(found["front"], torch.full((2,), share, dtype=torch.float64))
    torch.testing.assert_close(found["even"], found["front"])
    # The first of the text's own tokens is not among the later ones.
    first = sum(1 / (3 + i) for i in range(2, 6)) / 4
    torch.testing.assert_close(found["first"], torch.full((2,), first, dtype=torch.float64))


def test_reach_is_the_mean_distance_of_the_latter_queries() -> None:
    even = torch.ones(1, 2, 6, 6).double().tril()
    even = even / even.sum(dim=-1, keepdim=True)
    before = torch.eye(6).double().roll(-1, dims=-1).expand(1, 2, -1, -1)
    assert reach([even]) == pytest.approx((3 + 4 + 5) / 2 / 3)
    assert reach([before]) == pytest.approx(1)
    assert reach([even, torch.eye(6).double().expand(1, 2, -1, -1)]) == pytest.approx(1)


def test_a_longer_table_is_a_copy_that_starts_from_the_trained_rows() -> None:
    table = pe.Learned(8, max_length=512)
    model = pe.Transformer(19, 8, depth=1, heads=2, encoding=table, max_length=512)
    longer = extended(model, "random")
    (made,) = longer.embedding.encodings
    assert made.weight.shape == (128, 8)
    assert torch.equal(made.weight[:64], table.weight[:64])
    assert not torch.equal(made.weight[64:], table.weight[64:128])
    ids = torch.randint(19, (1, 64))
    assert torch.equal(longer(ids), model(ids))
    assert model.embedding.encodings[0] is table


def test_differences_are_taken_seed_by_seed() -> None:
    def losses(*values: float) -> dict[str, Any]:
        by_seed = {str(seed): value for seed, value in enumerate(values)}
        return {"loss": {"targets": {"64": {"seeds": by_seed}}}}

    report = {"lengths": [64], "encodings": {"a": losses(1.0, 5.0), "b": losses(1.5, 5.5)}}
    assert rows(report, "a")[1] == ["b", "3.500 (-21.912 to 28.912)", "+0.500"]


class TestSpread:
    """Why RoPE's loss at twice the length differs so much: what is kept, and what is said of it."""

    def test_every_run_has_its_row(self) -> None:
        kept = [{**{n: int(row[n]) for n in (*spread.LEVELS, "seed")}} for row in spread.table()]
        runs = [*spread.cells(), *((0, cell) for cell in spread.PREDICTED)]
        assert kept == [cell | {"seed": seed} for seed, cell in runs]
        assert len(spread.whole(spread.table())) == 54
        assert spread.noise(spread.table(), "rise")[1] == 9

    def test_effects_share_out_the_whole_variance(self) -> None:
        rows = [
            {**dict(zip(spread.LEVELS, at, strict=True)), "seed": 0, "rise": 0.0}
            for at in itertools.product(*spread.LEVELS.values())
        ]
        for row in rows:
            row["rise"] = math.log10(row["base"]) * row["head"] + (row["dim"] == 64)
        found = spread.effects(rows, "rise", 4)
        explained = {names for names, (squares, _) in found.items() if squares > 1e-6}
        assert explained == {("head",), ("base",), ("dim",), ("head", "base")}
        assert sum(degrees for _, degrees in found.values()) == 53
        mean = sum(row["rise"] for row in rows) / 54
        total = sum((row["rise"] - mean) ** 2 for row in rows)
        assert sum(squares for squares, _ in found.values()) == pytest.approx(total)

    def test_a_pair_lies_between_a_quarter_and_a_whole_turn(self) -> None:
        # Of 4 pairs at base 10^4 and 64 bytes: 64, 6.4, 0.64 and 0.064 radians.
        cell = {"head": 8, "base": 10_000, "length": 64, "dim": 32}
        assert spread.between(cell) == 0
        assert spread.between(cell | {"length": 32}) == 1

    @pytest.mark.parametrize("language", ["en", "zh"])
    def test_the_lesson_has_the_numbers_of_the_table(self, language: str) -> None:
        page = Path("docs", language, "learn", "extrapolation.md").read_text("utf-8")
        rows = spread.table()
        for line in list(spread.grid(rows))[1:]:
            assert line in page
        total = sum(squares for squares, _ in spread.effects(rows, "rise", 4).values())
        share = {k: v / total for k, (v, _) in spread.effects(rows, "rise").items()}
        alone = sum(share[name,] for name in spread.LEVELS)
        three = share["head", "base", "length"]
        for number in (alone, share["base", "length"], three):
            assert f"{number:.0%}" in page
        apart = mean_of([row["rise"] - row["rise_windows"] for row in spread.whole(rows)])
        for number in (apart.mean, apart.low, apart.high):
            assert f"{number:.2f}" in page

    def test_the_rule_parts_them_and_holds_where_it_was_tried(self) -> None:
        for row in spread.table():
            cell = {name: int(row[name]) for name in spread.LEVELS}
            assert (row["rise"] < 0.14) == (spread.between(cell) == 0)
        tried = [round(row["rise"], 2) for row in spread.table() if spread.predicted(row)]
        assert tried == [0.02, 0.02, 0.0, 0.01, 1.61]
