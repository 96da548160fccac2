"""Experiments whose numbers the notes' pages give: what they do to models is what they say."""

from typing import Any

import pytest
import torch

import posenc as pe
from posenc.models.loading import load_model
from tests.support.trained import minilm
from tools.experiments import meaning, shift
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
