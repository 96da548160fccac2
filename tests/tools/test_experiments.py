"""Experiments whose numbers the notes' pages give: what they do to models is what they say."""

import pytest
import torch

from posenc.models.loading import load_model
from tests.support.trained import minilm
from tools.experiments import meaning


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
