"""The texts that a model reads: turned round, between what the tokenizer adds."""

from pathlib import Path
from typing import Any

import pytest

from posenc.errors import SettingError, UnsupportedError
from posenc.inspection.texts import TEXTS, TOKENS, make_texts, read_text


class Words:
    """A tokenizer of numbers, which puts 101 before each text and 102 behind."""

    def __call__(self, text: str, add_special_tokens: bool = True, **told: Any) -> dict[str, Any]:
        ids = [int(word) for word in text.split()]
        return {"input_ids": [101, *ids, 102] if add_special_tokens else ids}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(" ".join(map(str, range(50))))
    return path


class TestMakeTexts:
    def test_it_is_turned_between_what_the_tokenizer_adds(self, file: Path) -> None:
        texts = make_texts(Words(), file, 10, None, 200)
        assert texts.ids.tolist() == [
            [101, 0, 1, 2, 3, 4, 5, 6, 7, 102],
            [101, 2, 3, 4, 5, 6, 7, 0, 1, 102],
            [101, 4, 5, 6, 7, 0, 1, 2, 3, 102],
            [101, 6, 7, 0, 1, 2, 3, 4, 5, 102],
        ]
        assert texts.ids[0, texts.exchanged].tolist() == list(range(8))
        assert texts.source == str(file)

    def test_a_longer_text_is_cut_to_what_the_model_takes(self, file: Path) -> None:
        assert make_texts(Words(), file, None, 20, 200).ids.shape == (TEXTS, 20)

    def test_a_model_that_tells_no_length_takes_any(self, file: Path) -> None:
        file.write_text(" ".join(map(str, range(2 * TOKENS))))
        assert make_texts(Words(), file, TOKENS + 8, None, 200).ids.shape == (TEXTS, TOKENS + 8)
        assert make_texts(None, None, TOKENS + 8, None, 97).ids.shape == (TEXTS, TOKENS + 8)

    def test_a_shorter_text_stays_as_it_is(self, file: Path) -> None:
        file.write_text("5 6")
        texts = make_texts(Words(), file, None, 512, 200)
        assert texts.ids.tolist() == [[101, 5, 6, 102], [101, 6, 5, 102]]

    @pytest.mark.parametrize("text", ["", "7"])
    def test_less_than_two_tokens(self, file: Path, text: str) -> None:
        file.write_text(text)
        with pytest.raises(SettingError, match=f"gives {len(text)} tokens, besides 2"):
            make_texts(Words(), file, None, None, 200)

    @pytest.mark.parametrize("tokens", [-1, 1, 21])
    def test_more_tokens_than_the_model_takes_or_too_few(self, file: Path, tokens: int) -> None:
        with pytest.raises(SettingError, match=f"--tokens {tokens}: give 2 or more.* 20 at most"):
            make_texts(Words(), file, tokens, 20, 200)

    def test_without_a_tokenizer_tokens_are_random(self, file: Path) -> None:
        texts = make_texts(None, None, None, None, 97)
        assert texts.ids.shape == (TEXTS, TOKENS)
        assert texts.ids.max() < 97
        assert "random" in texts.source
        with pytest.raises(UnsupportedError, match="no tokenizer"):
            make_texts(None, file, None, None, 97)

    def test_the_text_that_comes_with_it_has_prose_and_code(self) -> None:
        text, source = read_text(None)
        assert "harbour" in text
        assert "def moving_average" in text
        assert source == "posenc's own"

    def test_bytes_that_are_no_text_are_read(self, tmp_path: Path) -> None:
        path = tmp_path / "bytes"
        path.write_bytes(b"\xff\xfe a")
        assert "a" in read_text(path)[0]

    def test_a_file_that_is_no_text_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "bytes"
        path.write_bytes(b"\x7fELF\0")
        with pytest.raises(SettingError, match="the file is binary"):
            read_text(path)
