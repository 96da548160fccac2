"""Training at positions that skip ahead: what reaches the model, and what it learns."""

import math
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch
from extend_models import TRAINED, byte_tokenizer, some_text, tiny_model
from torch import Tensor
from torch.testing import assert_close

import posenc as pe
from posenc.errors import LabError
from posenc.extend.forward import score
from posenc.extend.material import Material
from posenc.extend.methods import Reach, encodings
from posenc.extend.options import METHODS
from posenc.extend.tune.lora import adapters, projections
from posenc.extend.tune.settings import UNTUNABLE, Tuning
from posenc.extend.tune.text import training_windows
from posenc.extend.tune.train import Course, loss_of, shuffled, train
from posenc.models.attach import attach, detach
from posenc.models.attach.waves import Waves, turns_before_scores
from posenc.models.read import read

TARGET = 4 * TRAINED
ROTARY = pe.Rotary(16, base=10_000.0, scaling=pe.YaRN(4.0, TRAINED))


def material(
    spans: int = 2, longest: int = 200, beyond: int = 640, opens: bool = False
) -> Material:
    return Material.of(byte_tokenizer(opens), some_text(), spans, longest, beyond)


def trained(
    model: Any,
    windows: Tensor,
    steps: int,
    heard: Callable[..., None] | None = None,
) -> Course:
    tuning = Tuning(steps, rate=0.02).settled(TRAINED, TARGET)
    generator = torch.Generator().manual_seed(0)
    names = projections(model)
    model.requires_grad_(False)
    attach(model, ROTARY)
    if heard is not None:
        model.model.rotary_emb.register_forward_pre_hook(heard, with_kwargs=True)
    with adapters(model, names, 4, generator) as parameters:
        values = list(parameters.values())
        course = train(model, values, windows, TARGET, tuning, generator, lambda line: None)
    detach(model)
    return course


def test_methods_that_can_be_trained_turn_each_token_by_its_position_alone() -> None:
    spec = read(tiny_model().config.to_dict())
    for name in METHODS:
        ((encoding,), _) = encodings(spec, name, Reach(TRAINED, TARGET))
        assert turns_before_scores(encoding) == (name not in UNTUNABLE), name


def test_windows_are_what_nothing_is_measured_on() -> None:
    read_on, letters = material(), some_text()
    windows = training_windows(read_on, TRAINED)
    assert windows.shape == (30, TRAINED)
    for part, measured in enumerate((read_on.haystack, *read_on.spans)):
        begin = len(letters) * part // 3
        behind = windows[10 * part : 10 * part + 10].flatten()
        assert byte_tokenizer().decode(measured) == letters[begin : begin + 200]
        assert byte_tokenizer().decode(behind) == letters[begin + 200 : begin + 840]


def test_windows_open_as_texts_do() -> None:
    windows = training_windows(material(opens=True), TRAINED)
    assert set(windows[:, 0].tolist()) == {256}
    assert not bool((windows[:, 1:] == 256).any())


def test_text_behind_spans_goes_on_where_they_were_cut_into_tokens() -> None:
    # 16 letters for each token of a span of 10: what stands behind them is cut on its own.
    read_on, letters = material(spans=1, longest=10, beyond=500), some_text()
    assert byte_tokenizer().decode(read_on.rests[0]) == letters[10:510]


def test_a_text_without_room_for_a_window() -> None:
    # The longest of three parts ends where the text does.
    left = len(some_text()) - len(some_text()) * 2 // 3 - 6_600
    read_on = material(longest=6_600)
    assert len(training_windows(read_on, left)) >= 1
    said = rf"{left + 1} tokens behind a span .* at most {left} are left of one of 3 parts"
    with pytest.raises(LabError, match=said):
        training_windows(read_on, left + 1)


def test_positions_beyond_the_trained_length_reach_the_model() -> None:
    model, rows = tiny_model(), []

    def keep(module: Waves, args: tuple[Tensor, ...], told: dict[str, Tensor]) -> None:
        rows.append(told["position_ids"][0])

    trained(model, training_windows(material(), TRAINED), 40, heard=keep)
    assert len(rows) == 40
    for row in rows:
        steps = row.diff()
        assert len(row) == TRAINED
        assert row[0] == 0
        assert int(row.max()) < TARGET
        assert int(steps.min()) == 1
        assert int((steps > 1).sum()) <= 1
    farthest = [int(row.max()) for row in rows]
    assert max(farthest) > 0.9 * TARGET
    assert min(farthest) < 0.5 * TARGET


def test_tokens_see_what_stands_before_the_skip() -> None:
    model, said = tiny_model(), []
    attach(model, ROTARY)
    model.register_forward_hook(lambda module, args, out: said.append(out.logits[0].detach()))
    ids = torch.arange(20) * 7 % 257
    position = torch.arange(20) + 100 * (torch.arange(20) >= 10)
    for first in (0, 1):
        loss_of(model, torch.cat([torch.tensor([first]), ids[1:]]), position)
    assert not torch.allclose(said[0][10:], said[1][10:], atol=1e-3)


def test_the_loss_is_that_of_each_next_token() -> None:
    model = tiny_model()
    attach(model, ROTARY)
    ids = torch.arange(30) * 11 % 257
    assert_close(loss_of(model, ids, torch.arange(30)), score(model, ids).loss.mean())


def test_training_lowers_the_loss_of_what_it_reads() -> None:
    windows = training_windows(material(), TRAINED)[:4]
    model = tiny_model()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    course = trained(model, windows, 60)
    assert course.last < course.first - 0.3
    assert course.seconds > 0
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


def test_every_window_is_read_before_one_is_read_again() -> None:
    windows = torch.arange(5)[:, None]
    order = [int(x) for x in islice(shuffled(windows, torch.Generator().manual_seed(0)), 15)]
    assert [sorted(order[i : i + 5]) for i in (0, 5, 10)] == [[0, 1, 2, 3, 4]] * 3
    assert order[:5] != order[5:10]


def test_a_loss_that_is_no_number_is_told() -> None:
    model = tiny_model()
    with torch.no_grad():
        model.lm_head.weight[3] = math.nan
    windows = training_windows(material(), TRAINED)
    with pytest.raises(LabError, match=r"step 1 \(loss nan, .* lower --tune-lr than 0.02"):
        trained(model, windows, 20)
