"""The benchmark's cases, and that their contestants compute the same."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_type_hints

import pytest
import torch
from bench_cases import case_of
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

import posenc as pe
from posenc.bench import (
    building,
    converting,
    overhead,
    startup,
    whole_model,
)
from posenc.bench.attention import CONTENT_ROW
from posenc.bench.attention import GROWTH_ROW as MEMORY_GROWTH_ROW
from posenc.bench.attention_encodings import ENCODINGS, visible_share
from posenc.bench.attention_inputs import AttentionSetting, ours, refuse_quadratic
from posenc.bench.attention_products import multiplications, products, square_products
from posenc.bench.bare_tables import BARE
from posenc.bench.case import GROUPS, Case, Unavailable, prepared
from posenc.bench.cases import all_cases, chosen, words_of
from posenc.bench.decoding import CACHE_ROW, STATIC_ROW
from posenc.bench.measure import times
from posenc.bench.rotary import GROWTH_ROW
from posenc.bench.startup import ROW as STARTUP_ROW
from posenc.bench.training import ROW as TRAINING_ROW
from posenc.commands.bench import bench as command
from posenc.errors import UnknownNameError
from posenc.normal_form.pairs import visible

EVERY = all_cases()
# These wait for a compiler; the others are held to posenc's results below.
COMPILED = ("transformers compiled", "FlexAttention")


def flops(call: Callable[[], object]) -> int:
    """Two for each multiplication in matrix products, as torch counts them."""
    with FlopCounterMode(display=False) as counted:
        call()
    return counted.get_total_flops()


class TestCases:
    def test_names_are_unique_and_goals_name_contestants(self) -> None:
        assert len({case.name for case in EVERY}) == len(EVERY)
        for case in EVERY:
            assert case.floor in case.contestants
            # What is measured is judged.
            assert case.goals, case.name
            for goal in case.goals:
                named = {goal.who, goal.base, *(goal.peers or ())}
                assert named <= set(case.contestants)

    def test_every_row_of_the_figures_is_there_in_both_dtypes(self) -> None:
        lines_of: dict[str, set[str]] = {}
        for case in EVERY:
            for goal in case.goals:
                lines_of.setdefault(goal.row, set()).add(goal.line)
        assert len(lines_of) == 38
        # What there is in float32 alone.
        single = {row for row, found in lines_of.items() if not any("bfloat16" in x for x in found)}
        assert single == {
            GROWTH_ROW, MEMORY_GROWTH_ROW, CACHE_ROW, STATIC_ROW, TRAINING_ROW, STARTUP_ROW,
            building.ROW, *converting.ROWS.values(), CONTENT_ROW, startup.MEMORY_ROW,
            whole_model.ROW, overhead.ATTEND_ROW, overhead.STEP_ROW, overhead.LOWER_ROW,
        }  # fmt: skip
        for row in lines_of.keys() - single:
            found = lines_of[row]
            assert all(any(dtype in line for line in found) for dtype in ("float32", "bfloat16"))
            if row.startswith("rotate"):
                assert len(found) == 4

    def test_float16_stands_beside_its_siblings(self) -> None:
        goals = [goal for case in EVERY for goal in case.goals]
        reach = {(goal.row, goal.line): goal.reach for goal in goals}
        found = [(row, line) for row, line in reach if line.endswith(", float16")]
        assert found == [(row, "L = 2048, float16") for row in dict.fromkeys(r for r, _ in found)]
        assert len(found) == 2
        for row, line in found:
            assert reach[row, line] == reach[row, line.replace("float16", "bfloat16")]

    def test_of_a_smoke_run_there_is_one_of_each_group(self) -> None:
        groups = list(dict.fromkeys(case.group for case in EVERY))
        assert [case.group for case in chosen((), quick=True)] == groups

    def test_only_takes_groups_and_words_of_names_and_whole_ones(self) -> None:
        assert {case.group for case in chosen(("memory",), quick=False)} == {"memory"}
        found = chosen(("kerple", "--help"), quick=False)
        assert all("kerple" in case.name or "--help" in case.name for case in found)
        for name in [case.name for case in EVERY[::20]]:
            assert [case.name for case in chosen(words_of(name), quick=False)] == [name]
        with pytest.raises(UnknownNameError, match=r"'rotery'.*did you mean 'rotary'"):
            chosen(("rotery",), quick=False)

    def test_the_page_and_the_help_know_every_group(self) -> None:
        groups = list(dict.fromkeys(case.group for case in EVERY))
        assert list(GROUPS) == groups
        (option,) = get_type_hints(command, include_extras=True)["only"].__metadata__
        assert f"Groups between commas ({', '.join(groups)})" in option.help

    def test_what_would_fill_the_machine_is_refused(self) -> None:
        refuse_quadratic(AttentionSetting("t5", 2048, "float32"))
        refuse_quadratic(AttentionSetting("t5", 32_768, "float32", queries=1))
        with pytest.raises(Unavailable, match=r"quadratic.* 2 GiB"):
            refuse_quadratic(AttentionSetting("t5", 8192, "float32"))


def kinds() -> list[Case]:
    """A case of each kind whose contestants return tensors: at small size they are the same."""
    found: dict[Any, Case] = {}
    for case in EVERY:
        at: Any = case.setting
        if case.group in ("rotary", "attention", "decode") and hasattr(at, "dtype"):
            small = at.small()
            found.setdefault((case.name.partition(",")[0], small, tuple(case.contestants)), case)
    return list(found.values())


class TestContestants:
    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
    @pytest.mark.parametrize("case", kinds(), ids=lambda case: case.name)
    def test_they_compute_the_same(self, case: Case) -> None:
        setting: Any = case.setting
        bound = 1e-5 if setting.dtype == "float32" else 2e-2
        wanted: Sequence[Tensor] | None = None
        compared = 0
        for name, make in case.contestants.items():
            if name == case.floor or name in COMPILED or "multiply in" in name or name == "clone":
                continue
            try:
                # Made anew for each, for some write into their inputs.
                got: Any = make(setting.small().inputs())()
            except (ModuleNotFoundError, Unavailable):
                continue
            if got is None:
                continue
            # Gradients of tables have shapes of their own; those of q, k and v are common.
            got = [got] if isinstance(got, Tensor) else list(got[:3])
            if wanted is None:
                wanted = got
                continue
            for first, other in zip(wanted, got, strict=True):
                error = (first.float() - other.float()).abs().max() / first.float().abs().max()
                assert error < bound, name
            compared += 1
        assert wanted is not None or compared == 0

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
    @pytest.mark.parametrize(
        "case",
        [
            case
            for case in EVERY
            if case.group in ("positions", "conversion", "overhead") or "cache, 4096" in case.name
        ],
        ids=lambda case: case.name,
    )
    def test_they_run(self, case: Case) -> None:
        inputs = case.setting.small().inputs()
        reasons = {name: prepared(make, inputs) for name, make in case.contestants.items()}
        failed = {name: why for name, why in reasons.items() if isinstance(why, str)}
        assert all("is not installed" in why for why in failed.values()), failed

    def test_a_peer_that_is_not_there_is_said_in_a_line(self) -> None:
        def missing(_: None) -> Any:
            import posenc_has_no_such_peer

            return posenc_has_no_such_peer

        def broken(_: None) -> Any:
            return lambda: torch.ones(2) @ torch.ones(3)

        runs = case_of().contestants | {"peer": missing, "other": broken}
        found = times(case_of(contestants=runs), quick=True, seconds=0.0)
        assert set(found["values"]) == {"floor", "posenc"}
        assert found["missing"]["peer"] == "posenc_has_no_such_peer is not installed"
        assert found["missing"]["other"].startswith("failed: RuntimeError: inconsistent")

    @pytest.mark.parametrize("case", list(whole_model.cases()), ids=lambda case: case.name)
    def test_the_model_says_the_same_through_posenc(self, case: Case) -> None:
        pytest.importorskip("transformers")
        inputs = case.setting.small().inputs()
        makers = case.contestants
        theirs, ours = (makers[name](inputs) for name in (whole_model.THEIRS, whole_model.OURS))
        wanted, found = theirs(), ours()
        assert isinstance(wanted, Tensor)
        assert torch.allclose(wanted, found, atol=1e-4, rtol=1e-4)
        # A second call begins where the first did.
        assert torch.equal(found, ours())

    @pytest.mark.parametrize("encoding", ["packed documents", "window of 256", "lm_infinite"])
    def test_the_visible_share_is_that_of_the_pairs(self, encoding: str) -> None:
        # A window is as wide at every length, and must be narrower than these.
        length = 4096 if encoding == "lm_infinite" else 1024
        at = AttentionSetting(encoding, length, "float32", heads=1, kv_heads=1).inputs()
        mask = visible(at.lowered.form)
        assert mask is not None
        # Sinks are a few keys more.
        assert visible_share(encoding, length) == pytest.approx(
            mask.double().mean().item(), abs=2e-3
        )
        causal = mask.sum().item() / (length * (length + 1) / 2)
        assert visible_share(encoding, length, of_causal=True) == pytest.approx(causal, abs=4e-3)

    def test_an_unknown_backend_is_not_available(self) -> None:
        at = AttentionSetting("alibi", 16, "float32").inputs()
        assert prepared(ours("nobody"), at) == "no backend is called nobody"

    def test_terms_are_lowered_before_and_their_tables_are_leaves(self) -> None:
        at = AttentionSetting("t5", 16, "float32").inputs()
        (table,) = at.learned
        assert table.is_leaf
        assert table.shape[0] == 8

    @pytest.mark.parametrize("encoding", ENCODINGS)
    @pytest.mark.parametrize("backend", ["auto", "native", "blocked"])
    def test_a_step_runs_again_and_again(self, encoding: str, backend: str) -> None:
        at = AttentionSetting(encoding, 16, "float32").inputs()
        call = prepared(ours(backend), at)
        if isinstance(call, str):
            # A backend that cannot compute this, or has no kernels here, says so; auto always can.
            assert backend != "auto"
            assert "cannot compute this" in call
        else:
            first, second = call(), call()
            assert all(map(torch.equal, first, second))


class TestLeast:
    def test_who_does_the_least_is_no_peer(self) -> None:
        for case in EVERY:
            for goal in case.goals:
                if goal.least is not None:
                    assert goal.least in case.contestants
                    assert goal.least not in (goal.peers or ())

    @pytest.mark.parametrize("training", [False, True])
    def test_as_many_multiplications_as_attention_has(self, training: bool) -> None:
        """Seven for each pair and dimension in training, as torch counts its own."""
        whole = AttentionSetting("none", 2048, "float32", causal=False, training=training)
        shape = 1, whole.heads, whole.length, whole.dim
        wanted = sdpa_flop_count(shape, shape, shape)
        wanted += sdpa_backward_flop_count(shape, shape, shape, shape) if training else 0
        for setting, share in ((whole, 1.0), (replace(whole, causal=True), 2049 / 4096)):
            assert 2 * multiplications(setting) == wanted * share
            assert flops(products(setting.inputs())) == pytest.approx(wanted * share, rel=1e-3)

    def test_vectors_by_distance_are_multiplied_too(self) -> None:
        """By Transformer-XL for each pair, by DeBERTa two tables of 512 for each token."""
        length = 2048
        for encoding, more in (("transformer_xl", 1), ("deberta", 2 * 512 / length)):
            setting = AttentionSetting(encoding, length, "float32", causal=False, training=False)
            plain, trained = replace(setting, encoding="none"), replace(setting, training=True)
            for each, wanted in ((setting, 2 + more), (trained, 7 + 4 * more)):
                assert multiplications(each) == multiplications(plain) // 2 * wanted

    @pytest.mark.parametrize("count", [1, 1000, 10**6 + 7, 10**10])
    def test_products_are_as_many_as_asked_for(self, count: int) -> None:
        assert flops(square_products(count, torch.float32)) == pytest.approx(2 * count, rel=0.01)

    def test_a_model_multiplies_as_often_as_its_attention(self) -> None:
        setting = whole_model.ModelSetting(24).small()
        tokens = torch.randint(setting.vocabulary, (1, setting.tokens))
        counts = []
        for make in (whole_model.bare, whole_model.multiplied):
            model = make(setting)
            with torch.no_grad():
                counts.append(flops(lambda model=model: model(tokens)))
        met = setting.tokens * (setting.tokens + 1) // 2
        wanted = 2 * 2 * setting.width * met * setting.layers
        assert counts[1] - counts[0] == pytest.approx(wanted, rel=0.05)

    @pytest.mark.parametrize("name", BARE)
    def test_bare_calls_make_the_tables_of_lower(self, name: str) -> None:
        torch.manual_seed(0)
        encoding = overhead.LOWERED[name]()
        found = BARE[name](encoding, overhead.KEYS)()
        positions = overhead.TinySetting(1).inputs().positions
        lowered = pe.lower(encoding, positions, keys_prerotated=name != overhead.RAW)
        if name == overhead.RAW:
            waves = lowered.form.q_waves, lowered.form.k_waves
            wanted = [x for each in waves if each is not None for x in each]
        else:
            assert lowered.form.table is not None
            wanted = [lowered.form.table.values]
        for one, other in zip(wanted, found, strict=True):
            assert one is not None
            assert one.dtype == other.dtype
            assert torch.allclose(one.flatten(), other.flatten(), rtol=1e-6, atol=0)
