"""LongRoPE 2's search: what candidates are, that better ones are kept, and that it goes on."""

import json
import math
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from extend_models import TRAINED, Copier, byte_tokenizer, some_text, tiny_model

import posenc as pe
from posenc import SettingError, UnsupportedError
from posenc.extend.material import Material
from posenc.extend.methods import Reach, encodings, far_rotation, settled
from posenc.extend.options import METHODS, SEARCHED, Options
from posenc.extend.run import extend
from posenc.extend.search import run as search_run
from posenc.extend.search.evolution import generations
from posenc.extend.search.factors import Candidate, Space, mutated, start
from posenc.extend.search.needles import needle_loss, needles
from posenc.extend.search.run import ROWS, scaling_of, search_factors
from posenc.extend.search.settings import Search
from posenc.extend.subject import load_subject
from posenc.extend.write import config_of
from posenc.models.read import read

# Llama 3 8B to 128k.
LLAMA = Space(500_000.0, 64, 8192, 131_072)


def quiet(_: object) -> None:
    pass


def test_critical_pairs_are_those_of_the_paper() -> None:
    """Section 3.2: 35 of 64 pairs for Llama 3 8B and 31 of 48 for Phi 3 mini, by theory."""
    assert LLAMA.critical[-1] == 35
    assert Space(10_000.0, 48, 2048, 131_072).critical[-1] == 31
    for pair, turns in ((LLAMA.critical[0], 10), (LLAMA.critical[-1], 1)):
        periods = [2 * math.pi * LLAMA.base ** (i / LLAMA.pairs) for i in (pair - 1, pair)]
        assert periods[0] < LLAMA.trained / turns <= periods[1]


@pytest.mark.parametrize("space", [LLAMA, Space(1e4, 2, 64, 80), Space(1e4, 8, 7, 9)], ids=repr)
def test_candidates_never_fall_and_meet_the_extension(space: Space) -> None:
    drawn = Random(0)
    for pair in space.critical:
        candidate = start(space, pair, drawn)
        assert len(set(candidate.upper)) == 1
        for _ in range(50):
            candidate = mutated(candidate, space, drawn)
            factors = candidate.factors
            assert len(factors) == space.pairs
            assert candidate.critical == pair
            assert list(factors) == sorted(factors)
            assert factors[0] == 1.0
            assert space.least <= factors[pair]
            assert factors[-1] <= space.most


def test_lower_pairs_turn_by_another_base() -> None:
    """Of base * upper[0] ** (pairs / critical): algorithm 2, lines 7 and 8."""
    candidate = Candidate(30, (18.0, *[20.0] * 33))
    scaling = scaling_of(candidate, LLAMA)
    rotary = pe.Rotary(128, base=LLAMA.base, scaling=replace(scaling, short=scaling.long))
    base = LLAMA.base * 18.0 ** (64 / 30)
    lower = torch.tensor([base ** (-i / 64) for i in range(31)], dtype=torch.float64)
    positions = pe.Positions.build(2)
    angles = rotary.lower(positions)[0].q_angle[0, 0, 1]
    torch.testing.assert_close(angles[:31], lower, rtol=1e-12, atol=0)


@pytest.mark.parametrize("population", [1, 3, 40])
def test_generations_get_no_worse_and_follow_from_the_seed(population: int) -> None:
    wanted = torch.linspace(16.0, 30.0, 64).tolist()
    asked: list[Candidate] = []

    def loss(candidate: Candidate) -> float:
        asked.append(candidate)
        pairs = zip(candidate.upper, wanted[candidate.critical :], strict=True)
        return sum((x - y) ** 2 for x, y in pairs) / len(candidate.upper)

    search = Search(6, population)
    first = [*generations(LLAMA, search, 0, loss)]
    assert [len(x) for x in first] == [population] * 7
    best = [x[0].loss for x in first]
    assert best == sorted(best, reverse=True)
    assert best[-1] < best[0]
    assert {x.critical for x in asked} >= {35}
    if population == 40:
        assert {x.candidate.critical for x in first[0]} == set(LLAMA.critical)
        assert len(set(asked)) == len(asked)
    assert [*generations(LLAMA, search, 0, loss)] == first
    assert [*generations(LLAMA, search, 1, loss)] != first


def test_a_model_that_breaks_down_is_no_candidate() -> None:
    def loss(candidate: Candidate) -> float:
        return math.inf if candidate.critical > 30 else 1.0

    *_, last = generations(LLAMA, Search(2, 40), 0, loss)
    assert last[0].candidate.critical <= 30


def test_needles_stand_at_the_beginning_and_only_answers_count() -> None:
    material = Material.of(byte_tokenizer(), some_text(), 1, 400)
    hidden = needles(material, 400, 3, 0)
    assert len({tuple(x.ids.tolist()) for x in hidden}) == 3
    for needle in hidden:
        answer, text = bytes(needle.ids[needle.first :].tolist()), bytes(needle.ids.tolist())
        assert len(text) == 400
        assert text.index(answer) < 30
        assert len(answer) == 5
    assert needle_loss(Copier(), hidden) < 1e-6


@pytest.fixture
def material(folder: Path) -> Material:
    return Material.of(load_subject(folder).tokenizer, some_text(), 1, 400)


def test_it_is_kept_and_goes_on(
    folder: Path, material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject, read_times = load_subject(folder), []

    def counted(*call: Any) -> float:
        read_times.append(call)
        if len(read_times) == 4:
            raise KeyboardInterrupt
        return needle_loss(*call)

    def searched(count: int, seed: int = 0) -> Any:
        search = Search(count, population=3, samples=1)
        return search_factors(subject, material, search, 400, seed, tmp_path, quiet)

    monkeypatch.setattr(search_run, "needle_loss", counted)
    with pytest.raises(KeyboardInterrupt):
        searched(1)
    rows = [json.loads(line) for line in (tmp_path / ROWS).read_text().splitlines()]
    assert len(rows) == 3
    found = searched(1)
    # Three of the first generation, two children, and the one that was interrupted.
    assert len(read_times) == 6
    assert searched(1) == found
    assert len(read_times) == 6
    longer = searched(2)
    assert longer.record["course"][:2] == found.record["course"]
    assert len(read_times) == 8
    searched(0, seed=1)
    assert len(read_times) == 11
    assert found.scaling.original_length == 300
    assert found.scaling.long == found.record["factors"]


def test_what_was_found_is_measured_and_written(options: Options) -> None:
    search, methods = Search(1, population=2, samples=1), ("none", "ntk", SEARCHED)
    chosen = replace(options, methods=methods, search=search, write=SEARCHED, spans=1)
    outcome = extend(chosen, quiet)
    assert not outcome.failed
    assert list(outcome.data["methods"]) == [*methods]
    record = outcome.data["search"]
    assert len(record["course"]) == 2
    assert "--search 1 --search-population 2 --search-samples 1" in outcome.data["command"]
    written = json.loads((options.out / "config.json").read_text())
    again = read(written).main.layers[0].rotary.settings["scaling"]
    assert again.name == "LongRoPE"
    assert tuple(again.settings["long"]) == tuple(record["factors"])
    assert set(again.settings["short"]) == {1.0}
    assert f"long={again.settings['long']}" in outcome.data["methods"][SEARCHED]["encoding"]


def test_transformers_makes_the_same_of_what_is_written() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = tiny_model()
    spec, space = read(model.config.to_dict()), Space(1e4, 8, TRAINED, 2 * TRAINED)
    scaling = scaling_of(mutated(start(space, 3, Random(0)), space, Random(1)), space)
    reach = Reach(TRAINED, 2 * TRAINED, scaling)
    config = config_of(json.loads(model.config.to_json_string()), SEARCHED, reach)
    theirs = LlamaForCausalLM(LlamaConfig.from_dict(config)).eval()
    theirs.load_state_dict(model.state_dict())
    ids = torch.randint(256, (1, 2 * TRAINED), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        own = model(ids).logits
        for length in (TRAINED // 2, 2 * TRAINED):
            expected = theirs(ids[:, :length]).logits
            layers = [
                [settled(x, length) for x in parts] for parts in encodings(spec, SEARCHED, reach)
            ]
            pe.attach(model, lambda number, layers=layers: layers[number])
            torch.testing.assert_close(model(ids[:, :length]).logits, expected, rtol=0, atol=1e-4)
        assert (expected - own).abs().max() > 0.1


def test_what_cannot_be_searched_is_refused() -> None:
    for wrong in ((-1,), (1, 0), (1, 4, 0), (1.5,)):
        with pytest.raises(SettingError, match="extend --search"):
            Search(*wrong)
    for chosen in ({"methods": (*METHODS, SEARCHED)}, {"write": SEARCHED}):
        with pytest.raises(SettingError, match="give --search"):
            Options(Path("model"), **chosen)
    spec = read(tiny_model().config.to_dict())
    with pytest.raises(UnsupportedError, match="give --search"):
        encodings(spec, SEARCHED, Reach(TRAINED, 2 * TRAINED))
    main = spec.main
    first, second = main.layers
    other = replace(second.rotary, settings=second.rotary.settings | {"base": 7.0})
    layers = (first, replace(second, encodings=(other,)))
    with pytest.raises(UnsupportedError, match="2 rotations see farther"):
        far_rotation(replace(spec, parts={"text": replace(main, layers=layers)}), TRAINED)
