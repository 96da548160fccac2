"""One run of several processes: what one process computes, and checkpoints for any number."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from pair import Pair
from shared_runs import SMALL, first_step, left, task_of, terms_in_training, trained
from torch import nn
from torch.distributed.checkpoint import filesystem

from posenc.errors import LabError, SettingError
from posenc.lab.config import RunConfig
from posenc.lab.folder import RESULTS
from posenc.lab.model import build
from posenc.lab.train import resharding
from posenc.lab.train.given import How
from posenc.lab.train.resharding import FOLDER
from posenc.lab.train.sharding import recompute
from posenc.lab.train.together import Together, group

FSDP = How(parallel="fsdp")
# Of flip_flop, rows have other numbers of scored places; of drawn positions, each row its own.
WAYS = {
    "ddp": (How(accumulate=2), {}),
    "fsdp": (FSDP, {"task": "flip_flop", "encoding": "learned_rotary"}),
    "fsdp in parts, computed again": (
        How(parallel="fsdp", accumulate=3, checkpoint_activations=True),
        {"encoding": "fire", "positions": "random(longest=64)"},
    ),
    "two copies of one share": (How(parallel="fsdp", shards=1), {"encoding": "deberta"}),
}


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    found = Pair()
    yield found
    found.close()


@pytest.fixture(scope="module")
def one() -> Iterator[None]:
    """A group of this process alone."""
    with group("cpu"):
        yield


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_two_processes_train_as_one(pair: Pair, tmp_path: Path, way: str) -> None:
    how, changed = WAYS[way]
    config = replace(SMALL, **changed)
    trained(config, tmp_path / "one")
    pair(trained, config, tmp_path / "two", how)
    (losses, weights), (shared, joined) = left(tmp_path / "one"), left(tmp_path / "two")
    assert len(losses) == 20
    torch.testing.assert_close(shared, losses, rtol=1e-6, atol=1e-6)
    # FIRE has parameters without a gradient but for rounding, of which Adam makes whole steps.
    noisy = config.encoding == "fire"
    for name in (x for x in weights if not (noisy and ".encodings." in x)):
        scale = float(weights[name].abs().max())
        torch.testing.assert_close(joined[name], weights[name], rtol=0, atol=1e-5 * scale + 1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_the_gradient_is_that_of_the_whole_batch_clipped(pair: Pair, way: str) -> None:
    how, changed = WAYS[way]
    config = replace(SMALL, **changed)
    loss, whole = first_step(config, None)
    total = nn.utils.get_total_norm(list(whole.values()))
    # It was clipped, or nothing would be seen of that.
    assert float(total) == pytest.approx(1, abs=1e-5)
    for found, gradients in pair(first_step, config, how):
        torch.testing.assert_close(found, loss, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(gradients, whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("encoding", ["alibi(learned=True)", "t5", "learned_rotary", "fire"])
def test_position_terms_stay_float32_where_weights_come_in_bfloat16(
    pair: Pair, encoding: str
) -> None:
    config = replace(SMALL, encoding=encoding, precision="bfloat16")
    expected = terms_in_training(replace(config, precision="float32"), None)
    assert expected[0] != []
    for found in pair(terms_in_training, config, FSDP):
        assert all(x.dtype in (torch.float32, torch.float64) for layer in found for x in layer)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_bfloat16_learns_as_one_process_does(pair: Pair, tmp_path: Path) -> None:
    config = replace(SMALL, precision="bfloat16")
    trained(config, tmp_path / "one")
    pair(trained, config, tmp_path / "two", FSDP)
    (losses, _), (shared, _) = left(tmp_path / "one"), left(tmp_path / "two")
    # Gradients of a share are rounded to bfloat16 before they are summed.
    torch.testing.assert_close(shared, losses, rtol=2e-3, atol=0)


def test_blocks_are_computed_again_for_the_same_gradient() -> None:
    found = []
    for again in (False, True):
        model, calls = build(SMALL, task_of(SMALL)), []
        if again:
            recompute(model)
        for block in model.blocks:
            block.up.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        model(torch.arange(16)[None]).square().mean().backward()
        found.append(({name: p.grad for name, p in model.named_parameters()}, len(calls)))
    (kept, once), (recomputed, twice) = found
    assert (once, twice) == (2, 4)
    torch.testing.assert_close(recomputed, kept)


class TestCheckpoints:
    @pytest.mark.long
    @pytest.mark.parametrize("how", [How(), FSDP], ids=lambda how: how.parallel)
    def test_two_processes_then_one_then_two_go_on_as_if_nothing_had_been(
        self, pair: Pair, one: None, tmp_path: Path, how: How
    ) -> None:
        trained(SMALL, tmp_path / "whole")
        folder = tmp_path / "parts"
        pair(trained, SMALL, folder, how, 6)
        assert [path.name for path in (folder / FOLDER).iterdir()] == ["000000006"]
        trained(SMALL, folder, How(), 13)
        assert [path.name for path in (folder / FOLDER).iterdir()] == ["000000013"]
        pair(trained, SMALL, folder, how)
        assert not (folder / FOLDER).exists()
        losses, whole = left(tmp_path / "whole")
        resumed, weights = left(folder)
        torch.testing.assert_close(resumed, losses, rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(weights, whole, rtol=1e-5, atol=1e-6)

    def test_one_whose_writing_was_cut_short_leaves_the_one_before(
        self, one: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trained(SMALL, tmp_path / "whole")
        folder = tmp_path / "parts"
        trained(SMALL, folder, FSDP, 6)
        with monkeypatch.context() as patched:
            # All shares are written by then, but not what tells of them.
            patched.setattr(filesystem.FileSystemWriter, "finish", cut_short)
            with pytest.raises(LabError, match="cut short"):
                trained(SMALL, folder, FSDP, 13)
        assert len([*(folder / FOLDER).iterdir()]) == 2
        (folder / RESULTS).unlink()
        trained(SMALL, folder, FSDP, 7)
        assert [path.name for path in (folder / FOLDER).iterdir()] == ["000000007"]
        trained(SMALL, folder, FSDP)
        losses, _ = left(tmp_path / "whole")
        resumed, _ = left(folder)
        torch.testing.assert_close(resumed, losses[6:], rtol=1e-6, atol=1e-6)

    def test_one_that_cannot_be_read_is_an_error(self, one: None, tmp_path: Path) -> None:
        trained(SMALL, tmp_path, FSDP, 6)
        (share,) = (tmp_path / FOLDER / "000000006").glob("*.distcp")
        share.write_bytes(b"")
        with pytest.raises(LabError, match="000000006 cannot be gone on from"):
            trained(SMALL, tmp_path, FSDP)

    def test_one_of_a_version_that_counted_no_tokens_is_an_error(
        self, one: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(resharding, "json", SimpleNamespace(dumps=lambda _: '{"step": 6}'))
            trained(SMALL, tmp_path, FSDP, 6)
        with pytest.raises(LabError, match=r"its clock tells of \{'step': 6\}"):
            trained(SMALL, tmp_path, FSDP)


def cut_short(*_: object, **__: object) -> None:
    raise OSError("cut short")


@pytest.mark.parametrize(
    ("how", "config", "wrong"),
    [
        (How(), replace(SMALL, batch=3), "batch is 3, but 4 processes .* 1 parts need 4 examples"),
        (How(accumulate=2), SMALL, "batch is 7, but 4 processes .* 2 parts need 8 examples"),
        (How(), replace(SMALL, model="bert"), "model is 'bert': several processes train"),
        (How(parallel="fsdp", shards=3), SMALL, "shards is 3: it must divide .* 4"),
    ],
)
def test_what_four_processes_cannot_share(how: How, config: RunConfig, wrong: str) -> None:
    with pytest.raises(SettingError, match=wrong):
        Together(0, 4, torch.device("cpu"), how).check(config)
