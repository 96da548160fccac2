"""Every claim of the registry is whole, and can be run as it stands."""

import pkgutil
import re

import pytest

from posenc.claims import Claim, claims, find, registry
from posenc.claims.kept import kept
from posenc.claims.sentences import told
from posenc.claims.verdict import cells
from posenc.claims.words import TEXTS
from posenc.errors import UnknownNameError
from posenc.lab.model import settings_of
from posenc.lab.tasks import find as find_task
from posenc.words import Language, Words
from tests.support.prose import HAN, english
from tests.support.trained import smollm2_gguf

CLAIMS = claims()
SIZES = ("small", "large")


def test_a_file_is_a_claim_of_its_name() -> None:
    assert {*CLAIMS} == {module.name for module in pkgutil.iter_modules(registry.__path__)}
    assert find("Alibi-Extrapolates") is find("alibi_extrapolates")
    with pytest.raises(UnknownNameError, match="alibi_extrapolates"):
        find("alibi_extrapolate")


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
class TestEvery:
    def test_it_says_what_and_where_in_both_languages(self, claim: Claim) -> None:
        for ours, chinese in (claim.says, claim.differs):
            assert ours.endswith(".")
            assert chinese.endswith("。")
            assert HAN.search(chinese)
            assert not HAN.search(ours)
            assert english(chinese) == []
        assert re.search(r"\d{4}", claim.source)

    @pytest.mark.parametrize("size", SIZES)
    def test_its_arms_can_be_run(self, claim: Claim, size: str) -> None:
        for config in claim.arms(size).values():
            if config.model == "smollm2":
                smollm2_gguf()
            assert settings_of(config)
            assert find_task(config.task).spec == config.task

    @pytest.mark.parametrize("size", SIZES)
    def test_what_it_speaks_of_is_measured(self, claim: Claim, size: str) -> None:
        arms = claim.arms(size)
        spoken = cells(claim)
        bases = {config.base for config in arms.values() if config.base}
        assert {cell.arm for cell in spoken} | bases == {*arms}
        for cell in spoken:
            config = arms[cell.arm]
            assert round(cell.times * claim.lengths(size)[cell.arm]) in config.test_lengths
            # What is made by a rule has right answers, a text has losses of windows.
            made = config.task.startswith("passkey") or not config.of_text
            assert cell.metric in (
                ("exact", "token", "loss") if made else ("loss", "windows", "position")
            )

    def test_it_can_come_out_otherwise(self, claim: Claim) -> None:
        assert claim.expects
        for one in claim.expects:
            bounds = [bound for bound in (one.above, one.below) if bound is not None]
            assert bounds == sorted(bounds)
            assert bounds
        assert claim.seeds >= 5
        assert len({*claim.rates}) == len(claim.rates) != 1


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_result_can_be_told(language: Language) -> None:
    say = Words(language, TEXTS)
    for name, claim in CLAIMS.items():
        lines = "\n".join(told(claim, kept(name), say))
        assert name in lines
        if language == "zh":
            assert english(lines.replace(claim.source, "")) == []


@pytest.mark.parametrize("key", TEXTS)
def test_both_languages_fill_in_the_same(key: str) -> None:
    fields = [{*re.findall(r"{(\w+)", text)} for text in TEXTS[key]]
    assert fields[0] == fields[1]
