"""Files of runs on their way, without a cluster."""

import pickle
from pathlib import Path

import pytest

from posenc.lab.engine.mailbox import Mailbox
from posenc.lab.engine.parcel import Outbox, receive, remove_arriving, token
from posenc.lab.folder import CHECKPOINT, RESULTS, WEIGHTS


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    folders = tmp_path / "scratch", tmp_path / "out"
    for folder in folders:
        folder.mkdir()
    return folders


@pytest.mark.parametrize("seen", [True, False])
def test_what_changed_arrives_whole(folders: tuple[Path, Path], seen: bool) -> None:
    scratch, out = folders
    (scratch / RESULTS).write_bytes(b"{}\n")
    outbox = Outbox(scratch, "a1", out if seen else None)
    outbox.skip()
    assert outbox.changed() == []
    (scratch / CHECKPOINT).write_bytes(b"first")
    (scratch / RESULTS).write_bytes(b'{}\n{"a": 1}\n{"b"')
    sent = pickle.loads(pickle.dumps(outbox.changed()))
    assert (b"first" in dict(sent).values()) is not seen
    receive(out, sent)
    # After Ctrl-C a letter may be read twice.
    receive(out, sent)
    assert (out / CHECKPOINT).read_bytes() == b"first"
    # Half a row is no row yet.
    assert (out / RESULTS).read_bytes() == b'{}\n{"a": 1}\n'
    (scratch / CHECKPOINT).unlink()
    (scratch / WEIGHTS).write_bytes(b"weights")
    receive(out, outbox.changed())
    assert {path.name for path in out.iterdir()} == {RESULTS, WEIGHTS}


def test_weights_arrive_before_rows_and_rows_before_the_checkpoint(
    folders: tuple[Path, Path],
) -> None:
    scratch, _ = folders
    for name in (RESULTS, WEIGHTS, CHECKPOINT):
        (scratch / name).write_bytes(b"{}\n")
    assert [name for name, _ in Outbox(scratch, "a1", None).changed()] == [
        WEIGHTS,
        RESULTS,
        CHECKPOINT,
    ]


def test_what_a_dead_attempt_left_is_removed(folders: tuple[Path, Path]) -> None:
    scratch, out = folders
    (scratch / CHECKPOINT).write_bytes(b"late")
    (out / CHECKPOINT).write_bytes(b"kept")
    Outbox(scratch, "a1", out).changed()
    assert len(list(out.iterdir())) == 2
    remove_arriving(out)
    assert [path.read_bytes() for path in out.iterdir()] == [b"kept"]


def test_a_token_is_found_where_the_folder_is_the_same(folders: tuple[Path, Path]) -> None:
    scratch, out = folders
    with token(out) as made:
        assert made.found()
        assert not type(made)(scratch, made.name, made.content).found()
        (out / made.name).write_text("of another")
        assert not made.found()
    assert list(out.iterdir()) == []


class TestMailbox:
    def test_an_answer_that_was_lost_comes_again(self) -> None:
        mailbox = Mailbox()
        assert mailbox.begin("a", b"1")
        assert mailbox.post("a", b"2")
        assert mailbox.take(0) == mailbox.take(0) == [("a", b"1"), ("a", b"2")]
        assert mailbox.take(1) == [("a", b"2")]

    def test_an_attempt_that_is_over_is_told_to_end_and_not_heard(self) -> None:
        mailbox = Mailbox()
        mailbox.begin("a", b"1")
        mailbox.forget("a")
        assert not mailbox.post("a", b"2")
        assert mailbox.take(0) == [("a", b"1")]

    def test_when_closed_those_at_work_go_on_and_when_stopped_they_end(self) -> None:
        mailbox = Mailbox()
        mailbox.begin("a", b"1")
        mailbox.close()
        assert not mailbox.begin("b", b"1")
        assert mailbox.post("a", b"2")
        mailbox.stop()
        assert not mailbox.post("a", b"3")
        assert mailbox.take(0) == [("a", b"1"), ("a", b"2"), ("a", b"3")]
